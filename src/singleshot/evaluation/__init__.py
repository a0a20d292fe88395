"""How good predictions are: the same evaluation for tensors in memory, a file, and a trained run."""
