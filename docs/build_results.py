"""Update the tables, differences and figures in docs/results.md, docs/results and the README.

    make results          or          python docs/build_results.py

The numbers come from results/runs, one JSON file per run; nothing is trained. In a page, the text between two markers
is generated, and the rest is written by hand.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from evidence_tables import EVIDENCE_TABLES, effects_table, pairs_table

from singleshot.common.checks import check_choice
from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.models import list_models
from singleshot.paper.evidence import save_curves
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.figures import save_figure
from singleshot.paper.methods import CI, METHODS, base_recipe
from singleshot.paper.published import CI_MEAN, CI_ORACLE, METRICS
from singleshot.paper.regimes import REGIMES
from singleshot.paper.seed_means import Runs
from singleshot.paper.table_formats import MISSING, as_markdown, format_difference, markdown_table
from singleshot.paper.tables import Table, build_table
from singleshot.training.recipe import Recipe

ROOT = Path(__file__).resolve().parent.parent
RUNS, IMAGES = ROOT / "results" / "runs", ROOT / "docs" / "images"
CURVES = IMAGES / "evidence.png"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", *sorted((ROOT / "docs" / "results").glob("*.md")))
SEEDS = 3
START, END = "<!-- results: ", "<!-- end of results -->"
MARKED = re.compile(rf"({START}([^\n]*) -->\n)(.*?)({END})", re.DOTALL)
AGAINST = {
    "baseline": "baseline",
    "passes": "cross-entropy, T = 5",
    CI_MEAN: "CI, mean over β",
    CI_ORACLE: r"CI\[Oracle\]",
    "smoothing": "label smoothing (chosen ε)",
    "focal": "focal, γ = 3",
    "ts_case1": "temperature scaling, case 1",
    "ts_case2": "temperature scaling, case 2",
}
HEADLINE = {
    "baseline": "cross-entropy (baseline)",
    "smoothing_0.1": "label smoothing, ε = 0.1",
    "vwci": "VWCI, default measure",
    "vwci_total_variation_one_gradient": "VWCI, total variation, gradients through one pass",
    "auto_vwci": "self-tuned VWCI, 10 % held out, then trained on",
    "auto_smoothing": "self-tuned label smoothing, 10 % held out, then trained on",
    "ts_case2": "temperature scaling, 10 % held out",
}
"""Rows of the README's table."""
HEADLINE_REGIMES = {
    "hard-resnet18": "ResNet-18, 100 classes",
    "hard-vgg16": "VGG-16, 100 classes",
    "ten-classes": "ResNet-18, 10 classes",
    "fashion-mnist": "small CNN, Fashion-MNIST",
}
"""Columns of the README's table."""


def page_with_results(page: str, store: ResultStore, folder: Path) -> str:
    """Return the text of a page in ``folder`` with the text between its markers generated from the stored results.

    Figures are only linked; `draw` draws them.
    """
    _check_markers(page)
    return MARKED.sub(lambda found: f"{found[1]}{_generate(found[2], store, folder)}\n{found[4]}", page)


def draw(page: str, store: ResultStore) -> None:
    """Draw every figure on the page; the picture of a figure without runs is deleted."""
    _check_markers(page)
    for found in MARKED.finditer(page):
        match found[2].split():
            case ["figure", "evidence", *regimes]:
                save_curves(regimes, SEEDS, store, CURVES)
            case ["figure", number, dataset, *models]:
                bases, picture = [_base(dataset, model) for model in models], _picture(number, dataset, *models)
                try:
                    save_figure(f"fig{number}", bases, SEEDS, store, picture)
                except ValueError as error:  # nothing to draw yet
                    print(error)
                    picture.unlink(missing_ok=True)


def _check_markers(page: str) -> None:
    """Raise ValueError for a marker without its end, which would replace the text after it."""
    within = [found[3] for found in MARKED.finditer(page)]
    if not page.count(START) == page.count(END) == len(within) or any(START in text for text in within):
        raise ValueError(f"every '{START}… -->' needs its own '{END}' below it, and vice versa")


def _generate(marker: str, store: ResultStore, folder: Path) -> str:
    match marker.split():
        case ["table", number, dataset, model]:
            return as_markdown(_without_empty_rows(build_table(f"table{number}", _base(dataset, model), SEEDS, store)))
        case ["versus", method, dataset, model]:
            return _versus(method, _base(dataset, model), store)
        case ["figure", number, first, *others] if others or number == "evidence":
            return _figure(number, [first, *others], folder)
        case [kind, regime] if kind in EVIDENCE_TABLES and regime in REGIMES:
            return EVIDENCE_TABLES[kind](regime, SEEDS, store)
        case [kind, *regimes] if kind in ACROSS_REGIMES and regimes and set(regimes) <= set(REGIMES):
            return ACROSS_REGIMES[kind](regimes, SEEDS, store)
        case ["alpha", *what] if " ".join(what) in SEARCHES:
            file, convert = SEARCHES[" ".join(what)]
            return convert(json.loads((ROOT / "results" / file).read_text(encoding="utf-8")))
    raise ValueError(
        f"unknown marker {marker!r}; use 'table NUMBER DATA MODEL', 'versus METHOD DATA MODEL', "
        + ", ".join(f"'{kind} REGIME'" for kind in EVIDENCE_TABLES)
        + ", "
        "'figure NUMBER DATA MODEL MODEL...', 'figure evidence REGIME REGIME...', "
        + ", ".join(f"'{kind} REGIME REGIME...'" for kind in ACROSS_REGIMES)
        + " and "
        + ", ".join(f"'{f'alpha {what}'.strip()}'" for what in SEARCHES)
    )


def _without_empty_rows(table: Table) -> Table:
    """Leave out added rows that were not measured on this data set; each stands for one run per seed."""
    kept = tuple(row for row in table.rows if row.seeds or not row.added)
    left_out = table.seeds * (len(table.rows) - len(kept))
    return replace(table, rows=kept, runs=table.runs - left_out, missing=table.missing - left_out)


def _alpha(rows: list[dict[str, Any]]) -> str:
    """ECE and NLL of each disagreement measure in each regime, and its mean NLL above the best one."""
    regimes, methods = (list(dict.fromkeys(row[name] for row in rows)) for name in ("regime", "method"))
    means = {
        (method, regime): tuple(
            fmean(row[name] for row in rows if (row["method"], row["regime"]) == (method, regime))
            for name in ("ece", "nll")
        )
        for method in methods
        for regime in regimes
    }
    best = {regime: min(means[method, regime][1] for method in methods) for regime in regimes}
    above = {method: fmean(means[method, regime][1] - best[regime] for regime in regimes) for method in methods}
    lines = []
    for method in sorted(methods, key=above.__getitem__):
        cells = [f"{ece:.3f} / {nll:.3f}" for ece, nll in (means[method, regime] for regime in regimes)]
        lines.append([method, *cells, f"{above[method]:.3f}"])
    return markdown_table(["measure", *regimes, "NLL above best"], lines)


def _validated(rows: list[dict[str, Any]], *, column: str) -> str:
    """ECE and NLL of each method on validation images, mean over seeds, sorted by mean NLL on the common columns."""
    columns, methods = (list(dict.fromkeys(row[name] for row in rows)) for name in (column, "method"))
    found = {
        (method, name): [row for row in rows if (row["method"], row[column]) == (method, name)]
        for method in methods
        for name in columns
    }
    shared = [name for name in columns if all(found[method, name] for method in methods)]
    mean_nll = {
        method: fmean([fmean(row["nll"] for row in found[method, name]) for name in shared] or [0])
        for method in methods
    }
    ordered = sorted(methods, key=mean_nll.__getitem__)
    lines = [[METHODS[method].title, *(_ece_and_nll(found[method, name]) for name in columns)] for method in ordered]
    return markdown_table(["", *columns], lines)


def _ece_and_nll(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return MISSING
    ece, nll = (fmean(row[name] for row in rows) for name in ("ece", "nll"))
    return f"{ece:.3f} / {nll:.3f} ({len(rows)})"


def _seen(rows: list[dict[str, Any]]) -> str:
    """Disagreement of passes on training images, and metrics on unseen images."""
    columns = {
        "trained_accuracy": "accuracy",
        "trained_confidence": "confidence",
        "bhattacharyya": "1 − BC",
        "total_variation": "total variation",
        "epistemic_share": "I/H",
        "accuracy": "accuracy, unseen",
        "ece": "ECE, unseen",
    }
    lines = [[row["network"], *(f"{row[name]:.3f}" for name in columns)] for row in rows]
    return markdown_table(["network", *columns.values()], lines)


def _headline(regimes: Sequence[str], seeds: int, store: ResultStore) -> str:
    """Accuracy, ECE and NLL of the main methods in several regimes; means of fewer seeds are marked."""
    networks = [Runs(REGIMES[regime].recipe, seeds, store) for regime in regimes]
    rows = [[title, *(_headline_cell(runs, method) for runs in networks)] for method, title in HEADLINE.items()]
    return markdown_table(["accuracy · ECE · NLL", *(HEADLINE_REGIMES.get(regime, regime) for regime in regimes)], rows)


def _headline_cell(runs: Runs, method: str) -> str:
    found = runs.estimates(method)
    if not found:
        return MISSING
    few = "" if found["ece"].seeds == SEEDS else f" ({found['ece'].seeds} of {SEEDS} seeds)"
    return f"{found['accuracy'].mean:.1%} · {found['ece'].mean:.3f} · {found['nll'].mean:.3f}{few}"


def _versus(method: str, base: Recipe, store: ResultStore) -> str:
    """Mean differences to other methods with 95 % intervals over seeds."""
    runs = Runs(base, SEEDS, store)
    tried = len(runs.values_by_beta())
    lines = []
    for name, title in AGAINST.items():
        differences = runs.differences(method, name)
        if differences:
            partly = f" ({tried} of {len(CI)} β)" if name in (CI_MEAN, CI_ORACLE) and tried < len(CI) else ""
            cells = [format_difference(metric, differences[metric]) for metric in METRICS]
            lines.append([f"{title}{partly}", *cells, str(differences["ece"].seeds)])
    return markdown_table(["against", "acc. %", "ECE", "MCE", "NLL", "Brier", "seeds"], lines)


def _figure(number: str, names: list[str], folder: Path) -> str:
    """Link the figure of a data set and its networks, or that of several regimes."""
    if number == "evidence":
        picture, title = CURVES, "ECE on unseen images against the training accuracy"
    else:
        picture, title = _picture(number, *names), f"Figure {number} of the paper, measured on {names[0]}"
    if not picture.exists():
        return f"*Figure {number} has no runs yet.*"
    return f"![{title}]({Path(os.path.relpath(picture, folder)).as_posix()})"


def _picture(number: str, dataset: str, *models: str) -> Path:
    check_choice("experiment", f"fig{number}", tuple(EXPERIMENTS))
    return IMAGES / f"fig{number}-{'-'.join((dataset, *models))}.png"


def _base(dataset: str, model: str) -> Recipe:
    check_choice("model", model, tuple(list_models()))
    return base_recipe("small", dataset=dataset, model=model)


ACROSS_REGIMES: dict[str, Callable[[Sequence[str], int, ResultStore], str]] = {
    "headline": _headline,
    "effects": effects_table,
    "pairs": pairs_table,
}
"""Tables with a column per regime, by the first word of their marker."""
SEARCHES: dict[str, tuple[str, Callable[[list[dict[str, Any]]], str]]] = {
    "": ("alpha_search.json", _alpha),
    "cifar100": ("alpha_cifar.json", partial(_validated, column="model")),
    "regimes": ("alpha_regimes.json", partial(_validated, column="regime")),
    "seen": ("passes_seen.json", _seen),
}
"""Searches among disagreement measures: the file and the table function of each marker."""


def main() -> None:
    """Rewrite the pages and their pictures."""
    store = ResultStore.open(RUNS)
    if store.skipped:
        sys.exit("Nothing was written, as results cannot be read:\n" + "\n".join(store.skipped))
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        draw(page, store)
        write_text(path, page_with_results(page, store, path.parent))


if __name__ == "__main__":
    main()
