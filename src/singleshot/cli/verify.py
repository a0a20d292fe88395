"""``singleshot reproduce verify``: repeat the runs of stored results and compare their numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from singleshot.cli.grid_display import output_folder, raise_failures, run_and_show
from singleshot.common.environment import describe_environment
from singleshot.common.errors import StoppedError
from singleshot.common.text import print_status, printable
from singleshot.evaluation.formatting import amount
from singleshot.grid.job import Job, Result
from singleshot.grid.local_engine import LocalEngine
from singleshot.grid.store import ResultStore
from singleshot.grid.training_job import TrainingJob
from singleshot.grid.verification import differences
from singleshot.paper.quickstart import QuickstartJob

KINDS: dict[str, type[Job]] = {"recipe": TrainingJob, "method": QuickstartJob}
"""The jobs that have stored results, by a field of their files."""
SHOWN = 3
"""Differences of a run that are printed; the JSON output has all of them."""


def verify(results: Path, output: Path, *, jobs: int, data_root: Path | None, as_json: bool) -> None:
    """Repeat the run of each stored result in OUTPUT/verify and print whether its numbers are the same.

    Repeated runs are kept, so that the same command resumes an interrupted verification.
    """
    stored = _stored_results(results)
    found: dict[str, list[str]] = {}
    environment = describe_environment()  # a repetition by other code proves nothing about this one
    folder = output / "verify" / f"{environment['revision']}-torch-{environment['torch']}"
    with output_folder(folder):
        for name, kind in KINDS.items():
            wanted = [result.job for result in stored if isinstance(result.job, kind)]
            if wanted:
                store = ResultStore.open(folder / name / "results", kind)
                engine = LocalEngine(folder / name / "runs", jobs, data_root)
                raise_failures(run_and_show([partial(_same, wanted)], store, engine))
                found |= {one.job.key: differences(one, store[one.job]) for one in stored if one.job in store}
    different = {key: fields for key, fields in found.items() if fields}
    if as_json:
        print(json.dumps({"verified": len(found), "different": different}, indent=2))
    else:
        _print(stored, different)
    if different:
        raise StoppedError(f"{len(different)} of {amount(len(found), 'result')} could not be reproduced to the bit")


def _same(jobs: list[Job], _: ResultStore) -> list[Job]:
    """A grid whose jobs do not depend on results."""
    return jobs


def _stored_results(path: Path) -> list[Result]:
    """Read one result file, or all of a folder; raise ValueError naming the first that cannot be read."""
    if not path.exists():
        raise ValueError(f"{path} does not exist; give a folder of results, or one result file, with --results")
    results = []
    for file in [path] if path.is_file() else sorted(path.rglob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"{file} is not a result file ({error}); restore it, or remove it") from None
        kind = next((kind for field, kind in KINDS.items() if isinstance(content, dict) and field in content), None)
        results.append(Result.from_dict(content, kind or TrainingJob, source=str(file)))
    if not results:
        raise ValueError(f"{path} has no results to verify")
    return results


def _print(stored: list[Result], different: dict[str, list[str]]) -> None:
    for result in stored:
        fields = different.get(result.job.key, [])
        revision = result.environment.get("revision") or "unknown revision"
        outcome = f"different in {len(fields):,}" if fields else "same"
        print(f"{result.job.key}  {outcome:>16}  {printable(result.job.title)} ({printable(str(revision))})")
        for field in fields[:SHOWN]:
            print(f"    {printable(field)}")
    if different:
        print_status(
            "Bits depend on the versions of torch and numpy and on the kind of processor; compare these first."
        )
