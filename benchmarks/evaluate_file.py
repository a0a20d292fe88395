"""Memory and time of evaluating 10 million predictions in a file, compared with only reading the file.

    make bench          or          OMP_NUM_THREADS=1 python benchmarks/evaluate_file.py [--rounds 3] [--rows 10000000]

Each job runs in its own process. Wall time and CPU time exclude the imports; peak memory is the resident set of the
whole process, including the imports (Linux only). "Only reading" reads the file in blocks of 2 MB. Files are read from
the page cache, and from the disk after they were dropped from the cache; the disk of a virtual machine may itself be
cached by its host.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

ROWS, CLASSES, BLOCK = 10_000_000, 10, 2**16
READ, EVALUATE, WITH_EXAMPLES = "only reading", "evaluate", "evaluate, 20 replicates"
FILES = {"npy": "logits.npy", "npz": "predictions.npz"}
CACHE, DISK = "page cache", "disk"


def make_files(folder: Path, rows: int) -> None:
    """Write the same predictions as a pair of .npy files and as an .npz file, in blocks."""
    from singleshot.common.npy import NpyWriter
    from singleshot.predictions import read_predictions, write_predictions

    random = np.random.default_rng(0)
    scores_type, labels_type = np.dtype(np.float32), np.dtype(np.int64)
    with (
        NpyWriter(folder / FILES["npy"], scores_type, (CLASSES,)) as logits,
        NpyWriter(folder / "labels.npy", labels_type, ()) as labels,
    ):
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            target = random.integers(0, CLASSES, count)
            scores = random.normal(size=(count, CLASSES)).astype(np.float32) * 2
            scores[np.arange(count), target] += 3
            logits.append(scores)
            labels.append(target)
    pair = read_predictions(folder / FILES["npy"], labels=str(folder / "labels.npy"))
    write_predictions(folder / FILES["npz"], ((chunk.scores, chunk.labels) for chunk in pair.chunks()))


def read_only(folder: Path, file: str) -> float:
    """Read the file in blocks of 2 MB."""
    total = 0
    buffer = bytearray(2**21)
    for path in paths(folder, file):
        with path.open("rb", buffering=0) as opened:
            while got := opened.readinto(buffer):
                total += got
    return float(total)


def paths(folder: Path, file: str) -> list[Path]:
    return [folder / name for name in ([FILES["npy"], "labels.npy"] if file == "npy" else [FILES["npz"]])]


def drop_from_cache(folder: Path, file: str) -> None:
    """Drop the file from the page cache, so that it is read from the disk."""
    for path in paths(folder, file):
        with path.open("rb") as opened:
            os.fsync(opened.fileno())  # dirty pages would stay in the cache
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def evaluate(folder: Path, file: str, replicates: int = 0) -> float:
    """Evaluate as ``singleshot evaluate FILE --replicates ...`` does."""
    from singleshot.evaluation.evaluation import evaluate_file
    from singleshot.predictions import read_predictions

    labels = str(folder / "labels.npy") if file == "npy" else None
    predictions = read_predictions(folder / FILES[file], labels=labels)
    return evaluate_file(predictions, replicates=replicates).result.ece


JOBS: dict[str, Callable[[Path, str], float]] = {
    READ: read_only,
    EVALUATE: evaluate,
    WITH_EXAMPLES: lambda folder, file: evaluate(folder, file, replicates=20),
}


def run_job(job: str, folder: Path, file: str, place: str) -> None:
    import torch

    import singleshot.evaluation.evaluation  # noqa: F401

    torch.set_num_threads(1)
    if place == DISK:
        drop_from_cache(folder, file)
    started, busy = time.perf_counter(), time.process_time()
    value = JOBS[job](folder, file)
    spent = {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}
    print(json.dumps({**spent, "peak_mb": peak_mb(), "value": value}))


def peak_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measured(job: str, folder: Path, file: str, place: str) -> dict[str, float]:
    script = [sys.executable, __file__, "--job", job, "--folder", str(folder), "--file", file, "--place", place]
    found: dict[str, float] = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--intervals", action="store_true", help="also with 20 bootstrap replicates: minutes")
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--file", choices=list(FILES), help=argparse.SUPPRESS)
    parser.add_argument("--place", choices=[CACHE, DISK], default=CACHE, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        run_job(args.job, args.folder, args.file, args.place)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, args.rows)
        for file in FILES:
            print(f"\n.{file}, {args.rows:,} x {CLASSES} float32 logits, median of {args.rounds}")
            compare([READ, EVALUATE], folder, file, DISK, args.rounds)  # leaves the file in the cache
            compare(list(JOBS) if args.intervals else [READ, EVALUATE], folder, file, CACHE, args.rounds)


def compare(jobs: list[str], folder: Path, file: str, place: str, rounds: int) -> None:
    """Print time and memory of each job, relative to only reading."""
    found = [{job: measured(job, folder, file, place) for job in jobs} for _ in range(rounds)]
    reading = median(one[READ]["seconds"] for one in found)
    for job in jobs:
        seconds = median(one[job]["seconds"] for one in found)
        processor = median(one[job]["processor"] for one in found)
        peak = max(one[job]["peak_mb"] for one in found)
        print(
            f"  from the {place:<10}  {job:<23} {seconds:6.2f} s   {seconds / reading:6.1f} x reading   "
            f"{processor:6.2f} s CPU   {peak:4.0f} MB peak"
        )


if __name__ == "__main__":
    main()
