"""Results on disk: a folder of plain JSON files, one per run, each named after the hash of its recipe."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from singleshot.common.files import write_text
from singleshot.grid.job import Job
from singleshot.grid.result import Result


@dataclass
class ResultStore:
    """The finished runs in a folder. A file that cannot be used is left where it is, skipped, and named."""

    folder: Path
    results: dict[str, Result] = field(default_factory=dict)  # by key
    skipped: list[str] = field(default_factory=list)  # why each file that is no result was left out
    paths: dict[str, Path] = field(default_factory=dict, repr=False)  # of the files that were read

    @classmethod
    def open(cls, folder: Path | str) -> ResultStore:
        """What is there now; a folder that does not exist yet is an empty store."""
        store = cls(Path(folder))
        if store.folder.exists() and not store.folder.is_dir():
            raise ValueError(f"{store.folder} is a file; results need a folder, choose another --output")
        store.refresh()
        return store

    def refresh(self) -> None:
        """Read what others have added since; what was read before is not read again."""
        self.skipped.clear()
        for path in sorted(self.folder.rglob("*.json")):
            # A write that was killed leaves its half in a folder with a dot.
            hidden = any(part.startswith(".") for part in path.relative_to(self.folder).parts)
            if not hidden and self.paths.get(path.stem) != path:
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            result = Result.from_dict(json.loads(path.read_text(encoding="utf-8")), source=str(path))
        except (OSError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error) if str(path) in str(error) else f"{path}: {error}"
            self.skipped.append(f"{reason}; remove the file, or use the version that wrote it")
            return
        key = result.job.key
        if path.stem != key:
            twin = " as another file does" if key in self.results else ""
            self.skipped.append(f"{path}: it claims the run {key}{twin}, whose file is {key}.json; rename or remove it")
            return
        if key in self.results:
            self.skipped.append(f"{path}: a second file claims the run {key}; remove one of the two")
            return
        self.results[key], self.paths[key] = result, path

    def __contains__(self, job: Job) -> bool:
        return job.key in self.results

    def __getitem__(self, job: Job) -> Result:
        return self.results[job.key]

    def path_of(self, job: Job) -> Path:
        """Where the result of a run is kept: a folder for each data set and network keeps a large grid readable."""
        recipe = job.recipe
        return self.folder / dataset_name(recipe.dataset) / recipe.model / f"{job.key}.json"

    def add(self, result: Result) -> None:
        """Keep a result, on disk before anything else happens."""
        path = self.path_of(result.job)
        write_text(path, json.dumps(result.to_dict(), indent=1) + "\n")
        self.results[result.job.key], self.paths[result.job.key] = result, path

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """The runs that are still to do, each once."""
        return list({job.key: job for job in jobs if job not in self}.values())


def dataset_name(dataset: str) -> str:
    """What a data set is called in a file's name: one that is a folder has its last name.

    >>> dataset_name("cifar100"), dataset_name("pictures/birds"), dataset_name("..")
    ('cifar100', 'birds', 'images')
    """
    name = Path(dataset).name
    return name if name.strip(".") else "images"
