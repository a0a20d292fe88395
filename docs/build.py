"""Update the quickstart's table and picture in the README.

    make docs          or          python docs/build.py

The numbers come from results/quickstart. Missing runs are trained first; delete the folder to train all runs again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from singleshot.cli.main import main as singleshot
from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.paper.quickstart import QuickstartJob, summarize, table_rows
from singleshot.paper.table_formats import markdown_table

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "results" / "quickstart"
PICTURE = ROOT / "docs" / "images" / "quickstart.png"
SEEDS = 10
START, END = "<!-- quickstart table: make docs -->", "<!-- end of quickstart table -->"


def readme_with_results(readme: str) -> str:
    """Return the README with the table between its two markers generated from the stored results."""
    store = ResultStore.open(OUTPUT / "results", QuickstartJob)
    before, rest = readme.split(START)
    _, after = rest.split(END)
    headings, *rows = table_rows(summarize(store, SEEDS), bold=("**", "**"))
    return f"{before}{START}\n{markdown_table(headings, rows)}\n{END}{after}"


def main() -> None:
    """Train the missing runs, then rewrite the picture and the table."""
    singleshot(["quickstart", "--output", str(OUTPUT), "--seeds", str(SEEDS)])
    PICTURE.parent.mkdir(exist_ok=True)
    shutil.move(OUTPUT / "reliability.png", PICTURE)
    readme = ROOT / "README.md"
    write_text(readme, readme_with_results(readme.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
