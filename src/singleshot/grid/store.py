"""The result store: a folder with one JSON file per run, named after the key of its job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from singleshot.common.files import write_text
from singleshot.grid.job import Job, Result
from singleshot.grid.training_job import TrainingJob


@dataclass
class ResultStore:
    """The finished runs in a folder. Files that cannot be read are skipped, reported and never changed."""

    root: Path
    results: dict[str, Result] = field(default_factory=dict)  # by key
    skipped: list[str] = field(default_factory=list)  # the reason for each skipped file
    paths: dict[str, Path] = field(default_factory=dict, repr=False)  # by key
    job_type: type[Job] = TrainingJob

    @classmethod
    def open(cls, root: Path | str, job_type: type[Job] = TrainingJob) -> ResultStore:
        """Read all results; a folder that does not exist yet is an empty store."""
        store = cls(Path(root), job_type=job_type)
        if store.root.exists() and not store.root.is_dir():
            raise ValueError(f"{store.root} is a file; results need a folder, choose another --output")
        store.refresh()
        return store

    def refresh(self) -> None:
        """Read results that other processes have added since the last call."""
        self.skipped.clear()
        for path in sorted(self.root.rglob("*.json")):
            # A killed write leaves a partial file in a hidden folder.
            hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
            if not hidden and self.paths.get(path.stem) != path:
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            result = Result.from_dict(json.loads(path.read_text(encoding="utf-8")), self.job_type, source=str(path))
        except (OSError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error) if str(path) in str(error) else f"{path}: {error}"
            self.skipped.append(f"{reason}; remove the file, or use the version that wrote it")
            return
        key = result.job.key
        if path.stem != key:
            self.skipped.append(f"{path}: it holds run {key} and should be named {key}.json; rename or remove it")
        elif key in self.results:
            self.skipped.append(f"{path}: another file also holds run {key}; remove one of the two")
        else:
            self.results[key], self.paths[key] = result, path

    def __contains__(self, job: Job) -> bool:
        return job.key in self.results

    def __getitem__(self, job: Job) -> Result:
        return self.results[job.key]

    def add(self, result: Result) -> None:
        """Write a result to disk and keep it."""
        path = self.root / result.job.folder / f"{result.job.key}.json"
        write_text(path, json.dumps(result.to_dict(), indent=1) + "\n")
        self.results[result.job.key], self.paths[result.job.key] = result, path

    def clear(self) -> None:
        """Delete the files of all results."""
        for path in self.paths.values():
            path.unlink(missing_ok=True)
        self.results.clear()
        self.paths.clear()

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs without a result, each once."""
        return list({job.key: job for job in jobs if job not in self}.values())
