"""The command line: CSV files and words become fits, labels and reports."""
