"""Start-up time: the import of the package, and ``singleshot --help``.

make bench          or          OMP_NUM_THREADS=1 python benchmarks/startup.py [--rounds 7]
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import subprocess
import sys
from functools import partial

from timing import interleaved_medians, print_ratios

EVERYTHING = "import torch, singleshot\nfor name in singleshot.__all__: getattr(singleshot, name)"


def run_python(args: list[str]) -> None:
    subprocess.run([sys.executable, *args], capture_output=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    commands = {
        "python": ["-c", "pass"],
        "import torch": ["-c", "import torch"],
        "import torch, singleshot": ["-c", "import torch, singleshot"],
        "import torch, every singleshot name": ["-c", EVERYTHING],
        "singleshot --help": ["-m", "singleshot", "--help"],
    }
    medians = interleaved_medians({name: partial(run_python, args) for name, args in commands.items()}, rounds)
    print_ratios(f"start-up, median of {rounds} processes, times `import torch`", medians, "import torch")
    for name in ("import torch, singleshot", "import torch, every singleshot name"):
        print(f"  {name} adds {medians[name] - medians['import torch']:+.3f} s")


if __name__ == "__main__":
    main()
