"""Compare calibration libraries point by point: run every check in each library's environment, and write the table.

    python benchmarks/compare_libraries.py [--environments .venv-x] [--only netcal]

An environment is a folder with the library's name on the package index: ``python -m venv .venv-x/netcal`` and
``PIP_CONSTRAINT=constraints.txt .venv-x/netcal/bin/pip install netcal``. Besides, probmetrics gets numba and pandas,
scikit-learn gets matplotlib, and torch-uncertainty gets torch, lightning, rich, jsonargparse, matplotlib, scikit-learn
and scipy. A library without an environment is reported as not installed. Outcomes go to results/comparison.json, and
from there to the table in docs/comparison.md; tests/test_comparison.py compares the two.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

from check_library import LIBRARIES
from comparison_rows import ROWS

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "comparison.json", ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- comparison -->\n", "<!-- end of comparison -->\n"
NOT_INSTALLED = "not installed"


def run(name: str, environments: Path) -> list[dict[str, str]]:
    """Run the checks of a library and print what they saw."""
    python = environments / LIBRARIES[name].distribution / "bin" / "python"
    version, found = NOT_INSTALLED, dict.fromkeys(ROWS, NOT_INSTALLED)
    if python.exists():
        checks = Path(__file__).with_name("check_library.py")
        done = subprocess.run([python, checks, name], check=True, stdout=subprocess.PIPE, cwd=environments, text=True)
        first, *lines = map(json.loads, done.stdout.splitlines())
        version, found = first["version"], {line["check"]: line["outcome"] for line in lines}
    print(f"\n{name} {version}", *(f"  {check}: {outcome}" for check, outcome in found.items()), sep="\n", flush=True)
    return [{"library": name, "version": version, "check": check, "outcome": found[check]} for check in found]


def table(content: dict[str, Any]) -> str:
    """Return the outcomes as Markdown, one row per check."""
    cells = {(one["library"], one["check"]): one["outcome"] for one in content["outcomes"]}
    versions = {one["library"]: one["version"] for one in content["outcomes"]}
    lines = [["", *(f"{name} {version}" for name, version in versions.items())], ["---"] * (len(versions) + 1)]
    lines += [[check, *(cells[name, check] for name in versions)] for check in ROWS]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-x")
    parser.add_argument("--only", choices=LIBRARIES, help="keep the stored outcomes of the others")
    args = parser.parse_args()
    environments = args.environments.resolve()
    stored = json.loads(RESULTS.read_text("utf-8"))["outcomes"] if args.only else []
    outcomes: list[dict[str, str]] = []
    for name in LIBRARIES:
        kept = [one for one in stored if one["library"] == name]
        outcomes += run(name, environments) if args.only in {None, name} else kept
    content = {"date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(), "outcomes": outcomes}
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(content) + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
