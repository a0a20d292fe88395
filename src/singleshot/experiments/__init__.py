"""Experiments: grids of runs whose results are kept as they come."""
