"""The door for TensorLy users: tensors or marginals become a problem, starts, and the coupled factors."""
