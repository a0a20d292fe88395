"""A grid of quickstart runs in local processes, each result kept on disk the moment it is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from singleshot.common.files import write_text
from singleshot.grid.engines.local import interrupts_held_back, one_thread_each
from singleshot.metrics import Calibration, CalibrationResult
from singleshot.paper.measurements import Estimate
from singleshot.paper.quickstart import METHODS, Run, Setting, predictions_file, train_and_evaluate

FORMAT = "singleshot.quickstart"


class RunStore:
    """The finished runs of one setting in one JSON file, rewritten atomically with each new one."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self.path = path
        self.setting = setting
        self.runs: dict[tuple[str, int], Run] = {}

    @classmethod
    def open(cls, path: Path, setting: Setting) -> RunStore:
        """The store with what an earlier call left there; a file of something else is an error, never overwritten."""
        store = cls(path, setting)
        if not path.exists():
            return store
        advice = "choose another --output, or --restart to do it all again"
        try:
            found, runs = _parse(path.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise ValueError(f"{path} holds no quickstart results that can be continued ({error}); {advice}") from None
        if found != setting:
            raise ValueError(f"{path} holds runs of another setting ({found}); {advice}")
        store.runs = {(run.method, run.seed): run for run in runs}
        return store

    def add(self, run: Run) -> None:
        """Keep a run, on disk before anything else happens."""
        self.runs[run.method, run.seed] = run
        content = {
            "format": FORMAT,
            "setting": asdict(self.setting),
            "runs": [self.runs[key].to_dict() for key in sorted(self.runs)],
        }
        write_text(self.path, json.dumps(content, indent=1))

    def missing(self, seeds: int) -> list[tuple[str, int]]:
        """The runs that are still to do, a seed at a time, so that a stopped grid is a smaller grid."""
        return [(method, seed) for seed in range(seeds) for method in METHODS if (method, seed) not in self.runs]


def _parse(text: str) -> tuple[Setting, list[Run]]:
    content = json.loads(text)
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r}")
    return Setting(**content["setting"]), [Run.from_dict(entry) for entry in content["runs"]]


def run_grid(store: RunStore, seeds: int, jobs: int, on_finished: Callable[[Run], None], predictions: Path) -> None:
    """Do what the store does not have yet. An interrupt loses the runs under way and nothing else.

    A run's predictions are in the folder ``predictions`` before it is in the store.
    """
    todo = store.missing(seeds)
    if not todo:
        return
    with one_thread_each(), ProcessPoolExecutor(min(jobs, len(todo)), mp_context=get_context("spawn")) as pool:
        with interrupts_held_back():  # the workers start here
            pending = [
                pool.submit(
                    train_and_evaluate,
                    store.setting,
                    method,
                    seed,
                    predictions=predictions_file(predictions, method, seed),
                )
                for method, seed in todo
            ]
        try:
            for future in as_completed(pending):
                run = future.result()
                store.add(run)
                on_finished(run)
        except BaseException:
            for worker in list(pool._processes.values()):
                worker.terminate()  # what is under way would be thrown away anyhow
            raise


@dataclass(frozen=True)
class MethodSummary:
    """All runs of one method."""

    method: str
    metrics: dict[str, Estimate]
    pooled: CalibrationResult  # the predictions of all seeds together

    def to_dict(self) -> dict[str, Any]:
        """Every estimate, and the pooled bins, as plain values."""
        return {
            "metrics": {name: vars(estimate) for name, estimate in self.metrics.items()},
            "pooled": self.pooled.to_dict(),
        }


def summarize(method: str, runs: Iterable[Run]) -> MethodSummary:
    """Estimates over the runs of one method, training time among them."""
    runs = list(runs)
    results = [run.calibration.compute().metrics() for run in runs]
    metrics = {name: Estimate.of([result[name] for result in results]) for name in results[0]}
    metrics["train_seconds"] = Estimate.of([run.seconds for run in runs])
    pooled = Calibration(bins=20)
    for run in runs:
        pooled.merge(run.calibration)
    return MethodSummary(method, metrics, pooled.compute())


COLUMNS = {
    "accuracy": ("accuracy", max),
    "ECE": ("ece", min),
    "MCE": ("mce", min),
    "NLL": ("nll", min),
    "Brier": ("brier", min),
}
"""Heading: the metric, and which of two values is better."""


def table_rows(summaries: Sequence[MethodSummary], bold: tuple[str, str]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the comparison, the best mean of each column wrapped in ``bold``."""
    best = {metric: pick(s.metrics[metric].mean for s in summaries) for metric, pick in COLUMNS.values()}
    rows = []
    for summary in summaries:
        cells = [summary.method]
        for metric, _ in COLUMNS.values():
            estimate = summary.metrics[metric]
            cells.append(f"{bold[0]}{estimate}{bold[1]}" if estimate.mean == best[metric] else str(estimate))
        cells.append(f"{summary.metrics['train_seconds'].mean:.1f} s")
        rows.append(cells)
    return ["method", *COLUMNS, "training"], rows


def markdown_table(summaries: Sequence[MethodSummary]) -> str:
    """The comparison as a Markdown table."""
    header, rows = table_rows(summaries, bold=("**", "**"))
    rule = ["---", *["---:" for _ in header[1:]]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])
