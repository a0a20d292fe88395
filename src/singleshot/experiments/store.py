"""Results on disk: a folder of plain JSON files, one per run, each named after the hash of its recipe."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from singleshot.experiments.job import Job
from singleshot.experiments.result import Result
from singleshot.files import write_text


@dataclass
class ResultStore:
    """The finished runs in a folder. A file that cannot be used is left where it is, skipped, and named."""

    folder: Path
    results: dict[str, Result] = field(default_factory=dict)  # by key
    skipped: list[str] = field(default_factory=list)  # why each file that is no result was left out

    @classmethod
    def open(cls, folder: Path | str) -> ResultStore:
        """What is there now; a folder that does not exist yet is an empty store."""
        store = cls(Path(folder))
        if store.folder.exists() and not store.folder.is_dir():
            raise ValueError(f"{store.folder} is a file; results need a folder, choose another --output")
        for path in sorted(store.folder.rglob("*.json")):
            store._read(path)
        return store

    def _read(self, path: Path) -> None:
        try:
            result = Result.from_dict(json.loads(path.read_text(encoding="utf-8")), source=str(path))
        except (OSError, ValueError, RecursionError) as error:
            reason = str(error)
            self.skipped.append(reason if str(path) in reason else f"{path}: {reason}")
            return
        key = result.job.key
        if path.stem != key:
            twin = " as another file does" if key in self.results else ""
            self.skipped.append(f"{path}: it claims the run {key}{twin}, whose file is {key}.json; rename or remove it")
            return
        if key in self.results:
            self.skipped.append(f"{path}: a second file claims the run {key}; remove one of the two")
            return
        self.results[key] = result

    def __contains__(self, job: Job) -> bool:
        return job.key in self.results

    def __getitem__(self, job: Job) -> Result:
        return self.results[job.key]

    def path_of(self, job: Job) -> Path:
        """Where the result of a run is kept: a folder for each data set and network keeps a large grid readable."""
        recipe = job.recipe
        return self.folder / Path(recipe.dataset).name / recipe.model / f"{job.key}.json"

    def add(self, result: Result) -> None:
        """Keep a result, on disk before anything else happens."""
        write_text(self.path_of(result.job), json.dumps(result.to_dict(), indent=1) + "\n")
        self.results[result.job.key] = result

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """The runs that are still to do, each once."""
        return list({job.key: job for job in jobs if job not in self}.values())
