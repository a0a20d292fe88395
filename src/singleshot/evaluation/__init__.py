"""Evaluation of predictions, in the same way for tensors in memory, a file and a trained run."""
