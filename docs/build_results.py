"""Put what was measured into docs/results.md and the README: tables, differences and figures.

    make results          or          python docs/build_results.py

The numbers come from results/runs, one JSON file per run, and nothing is trained. In a page, what stands between two
marks is made anew; the sentences around them are written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from singleshot.experiments.figures import save_figure
from singleshot.experiments.measurements import versus
from singleshot.experiments.published import METRICS
from singleshot.experiments.scales import base_recipe
from singleshot.experiments.store import ResultStore
from singleshot.experiments.table_formats import as_markdown
from singleshot.experiments.tables import build_table
from singleshot.files import write_text
from singleshot.training.recipe import Recipe

ROOT = Path(__file__).resolve().parent.parent
RUNS, IMAGES = ROOT / "results" / "runs", ROOT / "docs" / "images"
PAGES = (ROOT / "docs" / "results.md", ROOT / "README.md")
SEEDS = 3
MARK = re.compile(r"(<!-- results: ([\w ]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
AGAINST = {
    "baseline": "baseline",
    "passes": "cross-entropy, T = 5",
    "ci_0.1": "CI, β = 0.1",
    "smoothing": "label smoothing (chosen ε)",
    "focal": "focal, γ = 3",
    "ts_case1": "temperature scaling, case 1",
    "ts_case2": "temperature scaling, case 2",
}


def page_with_results(page: str, store: ResultStore) -> str:
    """The page with everything between its marks made from the stored results; figures are only referred to."""
    return MARK.sub(lambda found: f"{found[1]}{_made(found[2].split(), store)}\n{found[3]}", page)


def _made(words: list[str], store: ResultStore) -> str:
    makers: dict[str, Callable[..., str]] = {"table": _table, "versus": _versus, "figure": _figure}
    return makers[words[0]](*words[1:], store=store)


def _table(number: str, dataset: str, model: str, *, store: ResultStore) -> str:
    return as_markdown(build_table(f"table{number}", _base(dataset, model), SEEDS, store))


def _versus(method: str, dataset: str, model: str, *, store: ResultStore) -> str:
    """How much better or worse a method is than each other one: mean difference and 95 % interval over seeds."""
    lines = [
        "| against | acc. % | ECE | MCE | NLL | Brier | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title in AGAINST.items():
        differences = versus(_base(dataset, model), method, name, SEEDS, store)
        if not differences:
            continue
        cells = []
        for metric in METRICS:
            one, scale, digits = (
                differences[metric],
                100 if metric == "accuracy" else 1,
                2 if metric == "accuracy" else 3,
            )
            interval = one.interval()
            range_ = (
                "" if interval is None else f" [{scale * interval[0]:+.{digits}f}, {scale * interval[1]:+.{digits}f}]"
            )
            cells.append(f"{scale * one.mean:+.{digits}f}{range_}")
        lines.append(f"| {title} | {' | '.join(cells)} | {differences['ece'].seeds} |")
    return "\n".join(lines)


def _figure(number: str, dataset: str, *models: str, store: ResultStore) -> str:
    del models, store  # the picture itself is drawn by `draw`
    picture = _picture(number, dataset)
    if not picture.exists():
        return f"*Figure {number} waits for its runs.*"
    return f"![Figure {number} of the paper, measured on {dataset}](images/{picture.name})"


def draw(page: str, store: ResultStore) -> None:
    """Draw every figure that the page refers to."""
    for found in MARK.finditer(page):
        kind, *words = found[2].split()
        if kind == "figure":
            number, dataset, *models = words
            bases = [_base(dataset, model) for model in models]
            try:
                save_figure(f"fig{number}", bases, SEEDS, store, _picture(number, dataset))
            except ValueError as error:  # nothing to draw yet
                print(error)


def _picture(number: str, dataset: str) -> Path:
    return IMAGES / f"fig{number}-{dataset}.png"


def _base(dataset: str, model: str) -> Recipe:
    return base_recipe("small", dataset=dataset, model=model)


def main() -> None:
    """Rewrite the pages and their pictures."""
    store = ResultStore.open(RUNS)
    for reason in store.skipped:
        print(f"Skipped {reason}")
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        draw(page, store)
        write_text(path, page_with_results(page, store))


if __name__ == "__main__":
    main()
