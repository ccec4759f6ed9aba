# Rscript mixtools_fit.R METHOD COMPONENTS SEED FOLDER: fit npEM or npMSL, with their defaults, to FOLDER/samples.csv
# and write posteriors.csv, weights.csv and bandwidth.csv there, all without headers.
suppressPackageStartupMessages(library(mixtools))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[4]
set.seed(as.integer(arguments[3]))
x <- as.matrix(read.csv(file.path(folder, "samples.csv"), header = FALSE))
fit <- switch(arguments[1], npEM = npEM, npMSL = npMSL)
result <- fit(x, mu0 = as.integer(arguments[2]), verb = FALSE)
store <- function(values, name) {
  write.table(format(as.matrix(values), digits = 17), file.path(folder, paste0(name, ".csv")),
              sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
}
store(result$posteriors, "posteriors")
store(result$lambdahat, "weights")
store(result$bandwidth, "bandwidth")
