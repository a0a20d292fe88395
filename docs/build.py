"""Update the picture and the table of the quickstart, and the costs in the README.

    make docs          or          python docs/build.py

The quickstart's numbers come from results/quickstart; missing runs are trained first, and deleting the folder trains
all of them again. The costs come from results/costs.json, which benchmarks/costs.py writes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from singleshot.cli.main import main as singleshot
from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.paper.quickstart import QuickstartJob, summarize, table_rows
from singleshot.paper.table_formats import markdown_table

ROOT = Path(__file__).resolve().parent.parent
QUICKSTART = ROOT / "results" / "quickstart"
PICTURE = ROOT / "docs" / "images" / "quickstart.png"
SEEDS = 5


def quickstart_table() -> str:
    """Return the comparison of the quickstart's methods."""
    store = ResultStore.open(QUICKSTART / "results", QuickstartJob)
    headings, *rows = table_rows(summarize(store, SEEDS), bold=("**", "**"))
    return markdown_table(headings, rows)


def costs_table() -> str:
    """Return what the main jobs cost with us and otherwise."""
    costs = json.loads((ROOT / "results" / "costs.json").read_text(encoding="utf-8"))
    vgg, resnet, ece, fit = (costs[name] for name in ("vgg16", "resnet18", "ece", "temperature"))

    def metrics(name: str) -> str:
        return f"{ece[name]['seconds']:.2f} s, {ece[name]['megabytes']:.0f} MB"

    def temperature(name: str) -> str:
        return f"{fit[name]['seconds']:.2f} s, error {max(fit[name]['error'], 2e-16):.0e}"

    rows = [
        [
            "a training step with five passes, relative to a plain step: VGG-16, dropout in its head, batch 8",
            f"**{vgg['ours']:.2f} ×**",
            f"loop over passes {vgg['loop']:.2f} ×",
        ],
        [
            "the same for ResNet-18 with stochastic depth (in brackets: one gradient pass)",
            f"**{resnet['ours']:.2f} ×** ({resnet['one_gradient']:.2f} ×)",
            f"loop over passes {resnet['loop']:.2f} ×",
        ],
        [
            "all metrics of 1,000,000 × 100 logits: time, memory above the input",
            f"**{metrics('ours')}**",
            f"the ECE alone: torchmetrics {metrics('torchmetrics')}; netcal {metrics('netcal')}",
        ],
        [
            "temperature of 10,000 × 100 logits: time, relative error",
            f"**{temperature('ours')}**",
            f"scikit-learn {temperature('sklearn')}; LBFGS as in the reference repository {temperature('lbfgs')}",
        ],
    ]
    return markdown_table(["", "singleshot", "otherwise"], rows)


GENERATED = {
    ROOT / "docs" / "results" / "quickstart.md": ("quickstart", quickstart_table),
    ROOT / "README.md": ("costs", costs_table),
}
"""Pages with a generated table between two markers of this name."""


def page_with_table(path: Path) -> str:
    """Return the text of a page with its table generated from the stored results."""
    name, table = GENERATED[path]
    start, end = f"<!-- {name}: make docs -->", f"<!-- end of {name} -->"
    before, rest = path.read_text(encoding="utf-8").split(start)
    _, after = rest.split(end)
    return f"{before}{start}\n{table()}\n{end}{after}"


def main() -> None:
    """Train the missing runs, then rewrite the picture and the tables."""
    singleshot(["quickstart", "--output", str(QUICKSTART), "--seeds", str(SEEDS)])
    PICTURE.parent.mkdir(exist_ok=True)
    shutil.move(QUICKSTART / "reliability.png", PICTURE)
    shutil.rmtree(QUICKSTART / "predictions", ignore_errors=True)  # only the results are stored
    (QUICKSTART / ".lock").unlink(missing_ok=True)
    (QUICKSTART / "report.html").unlink(missing_ok=True)
    for path in GENERATED:
        write_text(path, page_with_table(path))


if __name__ == "__main__":
    main()
