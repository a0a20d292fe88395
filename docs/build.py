"""Put the quickstart's table and picture into the README.

    make docs          or          python docs/build.py

The numbers come from results/quickstart/results.json. Runs that are not there are made first: delete the file to
measure everything anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from singleshot.cli.main import main as singleshot
from singleshot.common.files import write_text
from singleshot.paper.quickstart import METHODS, Setting
from singleshot.paper.quickstart_grid import RunStore, markdown_table, summarize

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "quickstart" / "results.json"
PICTURE = ROOT / "docs" / "images" / "quickstart.png"
SEEDS = 10
START, END = "<!-- quickstart table: make docs -->", "<!-- end of quickstart table -->"


def readme_with_results(readme: str) -> str:
    """The README with the table between its two marks made from the stored results."""
    store = RunStore.open(RESULTS, Setting())
    summaries = [summarize(method, [store.runs[method, seed] for seed in range(SEEDS)]) for method in METHODS]
    before, rest = readme.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{markdown_table(summaries)}\n{END}{after}"


def main() -> None:
    """Measure what is missing, then rewrite the picture and the table."""
    singleshot(["quickstart", "--output", str(RESULTS.parent), "--seeds", str(SEEDS)])
    PICTURE.parent.mkdir(exist_ok=True)
    shutil.move(RESULTS.parent / "reliability.png", PICTURE)
    readme = ROOT / "README.md"
    write_text(readme, readme_with_results(readme.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
