"""Run every row of docs/comparison.md with one library, in an environment that has it.

python benchmarks/check_library.py netcal          prints a line of JSON per row; compare_libraries.py runs this
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import importlib.metadata
import json
import sys
import warnings
from contextlib import redirect_stdout

import library_checks  # noqa: F401  registers its rows
import library_features  # noqa: F401
from comparison_rows import ROWS
from library_adapters import Library, Netcal, Probmetrics, ScikitLearn, Torchmetrics, TorchUncertainty
from singleshot_adapter import Singleshot

LIBRARIES: dict[str, Library] = {
    "TorchUncertainty": TorchUncertainty(),
    "netcal": Netcal(),
    "torchmetrics": Torchmetrics(),
    "probmetrics": Probmetrics(),
    "scikit-learn": ScikitLearn(),
    "singleshot": Singleshot(),
}


def outcome(library: Library, title: str) -> str:
    """The cell of a row; an exception is an outcome, too."""
    try:
        return ROWS[title](library)
    except Exception as error:
        *_, last = f"{type(error).__name__}: {error}".strip().splitlines()  # the end of another process's traceback
        return f"error: {last}"


def main() -> None:
    library = LIBRARIES[sys.argv[1]]
    warnings.simplefilter("ignore")  # of the other libraries
    library.prepare()
    print(json.dumps({"version": importlib.metadata.version(library.distribution)}))
    for title in ROWS:
        with redirect_stdout(sys.stderr):  # what the libraries print
            found = outcome(library, title)
        print(json.dumps({"check": title, "outcome": found}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
