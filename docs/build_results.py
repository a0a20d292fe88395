"""Put what was measured into docs/results.md and the README: tables, differences and figures.

    make results          or          python docs/build_results.py

The numbers come from results/runs, one JSON file per run, and nothing is trained. In a page, the text between two marks
is generated; the sentences around them are written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from singleshot.common.checks import check_choice
from singleshot.common.files import write_text
from singleshot.grid.store import ResultStore
from singleshot.models import list_models
from singleshot.paper.estimates import Estimate, paired_differences, time_ratio, values_by_beta, values_by_seed
from singleshot.paper.experiments import EXPERIMENTS
from singleshot.paper.figures import save_figure
from singleshot.paper.methods import CI, METHODS, base_recipe
from singleshot.paper.published import CI_MEAN, CI_ORACLE, METRICS
from singleshot.paper.table_formats import as_markdown, format_time
from singleshot.paper.tables import build_table
from singleshot.training.recipe import Recipe

ROOT = Path(__file__).resolve().parent.parent
RUNS, IMAGES = ROOT / "results" / "runs", ROOT / "docs" / "images"
PAGES = (ROOT / "docs" / "results.md", ROOT / "README.md")
SEEDS = 3
NOTHING = "—"
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
    "passes": "the same, T = 5 passes",
    CI_MEAN: "CI, mean over β",
    CI_ORACLE: r"CI\[Oracle\]: best β on the test images",
    "vwci": "VWCI, 1 − BC",
    "vwci_total_variation": "VWCI, total variation",
    "focal": "focal loss, γ = 3",
    "smoothing": "label smoothing, ε from held-out images",
    "ts_case2": "temperature scaling, 10 % held out",
}
"""Rows of the README's table."""


def page_with_results(page: str, store: ResultStore, folder: Path) -> str:
    """Return the page with the text between its marks generated from the stored results.

    Args:
        page: its text.
        store: the finished runs.
        folder: the folder of the page, for links to figures; `draw` makes them.
    """
    _check_marks(page)
    return MARKED.sub(lambda found: f"{found[1]}{_made(found[2], store, folder)}\n{found[4]}", page)


def draw(page: str, store: ResultStore) -> None:
    """Draw every figure on the page; the picture of a figure without runs is deleted."""
    _check_marks(page)
    for found in MARKED.finditer(page):
        match found[2].split():
            case ["figure", number, dataset, *models]:
                bases, picture = [_base(dataset, model) for model in models], _picture(number, dataset, *models)
                try:
                    save_figure(f"fig{number}", bases, SEEDS, store, picture)
                except ValueError as error:  # nothing to draw yet
                    print(error)
                    picture.unlink(missing_ok=True)


def _check_marks(page: str) -> None:
    """Raise ValueError for a mark without its end, which would replace the text after it."""
    within = [found[3] for found in MARKED.finditer(page)]
    if not page.count(START) == page.count(END) == len(within) or any(START in text for text in within):
        raise ValueError(f"every '{START}… -->' needs its own '{END}' below it, and vice versa")


def _made(mark: str, store: ResultStore, folder: Path) -> str:
    match mark.split():
        case ["table", number, dataset, model]:
            return as_markdown(build_table(f"table{number}", _base(dataset, model), SEEDS, store))
        case ["versus", method, dataset, model]:
            return _versus(method, _base(dataset, model), store)
        case ["figure", number, dataset, model, *models]:
            return _figure(number, dataset, _picture(number, dataset, model, *models), folder)
        case ["headline", dataset, model, *models]:
            return _headline([_base(dataset, one) for one in (model, *models)], store)
        case ["alpha", *what] if " ".join(what) in SEARCHES:
            file, made = SEARCHES[" ".join(what)]
            return made(json.loads((ROOT / "results" / file).read_text(encoding="utf-8")))
    raise ValueError(
        f"unknown mark {mark!r}; use 'table NUMBER DATA MODEL', 'versus METHOD DATA MODEL', "
        "'figure NUMBER DATA MODEL MODEL...', 'headline DATA MODEL MODEL...' and "
        + ", ".join(f"'{f'alpha {what}'.strip()}'" for what in SEARCHES)
    )


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
    lost = {method: fmean(means[method, regime][1] - best[regime] for regime in regimes) for method in methods}
    lines = [f"| measure | {' | '.join(regimes)} | NLL above best |", f"| --- |{' ---: |' * (len(regimes) + 1)}"]
    for method in sorted(methods, key=lost.__getitem__):
        cells = [f"{ece:.3f} / {nll:.3f}" for ece, nll in (means[method, regime] for regime in regimes)]
        lines.append(f"| {method} | {' | '.join(cells)} | {lost[method]:.3f} |")
    return "\n".join(lines)


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
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [
        f"| {METHODS[method].title} | {' | '.join(_ece_and_nll(found[method, name]) for name in columns)} |"
        for method in sorted(methods, key=mean_nll.__getitem__)
    ]
    return "\n".join(lines)


def _ece_and_nll(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return NOTHING
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
    lines = [f"| network | {' | '.join(columns.values())} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [f"| {row['network']} | {' | '.join(f'{row[name]:.3f}' for name in columns)} |" for row in rows]
    return "\n".join(lines)


def _headline(bases: list[Recipe], store: ResultStore) -> str:
    """Accuracy, ECE, NLL and training time of the main methods with every network, and the number of seeds."""
    columns = [f"{base.model}: {name}" for base in bases for name in ("acc. %", "ECE", "NLL", "time")]
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for method, title in HEADLINE.items():
        cells = [cell for base in bases for cell in _headline_cells(base, method, store)]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", " ".join(_seeds_behind(base, store) for base in bases)])


def _headline_cells(base: Recipe, method: str, store: ResultStore) -> list[str]:
    runs = list(values_by_seed(base, method, SEEDS, store).values())
    if not runs:
        return [NOTHING] * 4
    accuracy, ece, nll = (Estimate.of([run[name] for run in runs]) for name in ("accuracy", "ece", "nll"))
    time = format_time(time_ratio(base, method, SEEDS, store), accuracy.seeds)
    return [f"{100 * accuracy.mean:.1f}", str(ece), str(nll), time]


def _seeds_behind(base: Recipe, store: ResultStore) -> str:
    counts = {title: len(values_by_seed(base, method, SEEDS, store)) for method, title in HEADLINE.items()}
    if not any(counts.values()):
        return f"{base.model}: no runs yet."
    fewer = "; ".join(f"{title}: {count}" for title, count in counts.items() if count < SEEDS)
    return f"{base.model}: {SEEDS} seeds per row{f', except {fewer}' if fewer else ''}."


def _versus(method: str, base: Recipe, store: ResultStore) -> str:
    """Mean differences to other methods with 95 % intervals over seeds."""
    lines = [
        "| against | acc. % | ECE | MCE | NLL | Brier | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    tried = len(values_by_beta(base, SEEDS, store))
    for name, title in AGAINST.items():
        differences = paired_differences(base, method, name, SEEDS, store)
        if differences:
            partly = f" ({tried} of {len(CI)} β)" if name in (CI_MEAN, CI_ORACLE) and tried < len(CI) else ""
            cells = [_difference(metric, differences[metric]) for metric in METRICS]
            lines.append(f"| {title}{partly} | {' | '.join(cells)} | {differences['ece'].seeds} |")
    return "\n".join(lines)


def _difference(metric: str, difference: Estimate) -> str:
    """Format a difference with its interval, accuracy in percentage points."""
    scale, digits = (100, 2) if metric == "accuracy" else (1, 3)
    mean, *ends = (f"{scale * value:+.{digits}f}" for value in (difference.mean, *(difference.interval() or ())))
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def _figure(number: str, dataset: str, picture: Path, folder: Path) -> str:
    if not picture.exists():
        return f"*Figure {number} has no runs yet.*"
    return f"![Figure {number} of the paper, measured on {dataset}]({picture.relative_to(folder).as_posix()})"


def _picture(number: str, dataset: str, *models: str) -> Path:
    check_choice("experiment", f"fig{number}", tuple(EXPERIMENTS))
    return IMAGES / f"fig{number}-{'-'.join((dataset, *models))}.png"


def _base(dataset: str, model: str) -> Recipe:
    check_choice("model", model, tuple(list_models()))
    return base_recipe("small", dataset=dataset, model=model)


SEARCHES: dict[str, tuple[str, Callable[[list[dict[str, Any]]], str]]] = {
    "": ("alpha_search.json", _alpha),
    "cifar100": ("alpha_cifar.json", partial(_validated, column="model")),
    "regimes": ("alpha_regimes.json", partial(_validated, column="regime")),
    "seen": ("passes_seen.json", _seen),
}
"""Searches among disagreement measures: by the word of the mark, the file and the function that makes its table."""


def main() -> None:
    """Rewrite the pages and their pictures."""
    store = ResultStore.open(RUNS)
    for reason in store.skipped:
        print(f"Skipped {reason}")
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        draw(page, store)
        write_text(path, page_with_results(page, store, path.parent))


if __name__ == "__main__":
    main()
