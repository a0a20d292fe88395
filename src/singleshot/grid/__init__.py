"""Sweeps of runs: jobs, the result store, and the engines that execute jobs on this machine or on a dask cluster."""
