"""Interleaved timing: every function runs in every round, so that a busy machine slows all of them equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def interleaved_seconds(
    contenders: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of each function in each round, without one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(rounds + 1):
        for name, run in contenders.items():
            started = clock()
            run()
            if round_number:
                seconds[name].append(clock() - started)
    return seconds


def interleaved_medians(
    contenders: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median seconds of each function."""
    return {name: median(values) for name, values in interleaved_seconds(contenders, rounds, clock).items()}


def print_ratios(title: str, medians: Mapping[str, float], reference: str) -> None:
    """Print the time of each function, and its ratio to the reference."""
    print(f"\n{title}")
    for name, seconds in medians.items():
        print(f"  {name:<44} {seconds * 1e3:9.1f} ms   {seconds / medians[reference]:6.2f} x")
