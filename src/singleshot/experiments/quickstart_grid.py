"""A grid of quickstart runs in local processes, each result kept on disk the moment it is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from singleshot.experiments.child_processes import interrupts_held_back, one_thread_each
from singleshot.experiments.quickstart import METHODS, Run, Setting, train_and_evaluate
from singleshot.experiments.quickstart_predictions import predictions_file
from singleshot.files import write_text

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
