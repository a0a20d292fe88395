"""Interleaved timing: every contender runs in every round, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def interleaved_seconds(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender in each round, after one warm-up round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(rounds + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if round_number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def interleaved_medians(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median seconds of each contender."""
    return {name: median(values) for name, values in interleaved_seconds(contenders, rounds).items()}


def print_ratios(title: str, medians: Mapping[str, float], reference: str) -> None:
    """One line per contender: its time, and how many times the reference it takes."""
    print(f"\n{title}")
    for name, seconds in medians.items():
        print(f"  {name:<44} {seconds * 1e3:9.1f} ms   {seconds / medians[reference]:6.2f} x")
