"""Sweeps of training runs: jobs, the result store, and the engines that execute them."""
