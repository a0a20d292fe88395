"""What a reader of a table has to know: at which scale, how rows were made, and what sets its runs apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from singleshot.common.environment import HARDWARE
from singleshot.common.text import printable
from singleshot.grid.result import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.exhibits import CI, chosen_smoothing
from singleshot.paper.measurements import ORACLE, OVER_BETA
from singleshot.paper.methods import EPSILONS, base_recipe
from singleshot.paper.published import PublishedRow
from singleshot.paper.table_rows import Row, eligible_rows, measured_rows
from singleshot.training.recipe import Recipe

_VERSIONS = {"revision": "revisions", "singleshot": "singleshot", "torch": "torch"}


def scale_text(recipe: Recipe, runs: Sequence[Result] = ()) -> str:
    """How large network, images and training are; of how many images the data set has, finished runs know."""
    size = f"{recipe.image_size}×{recipe.image_size} pixels"
    return f"width {recipe.width:g}, {size}, {_images(recipe, runs)}, {recipe.epochs} epochs"


def _images(recipe: Recipe, runs: Sequence[Result]) -> str:
    used = "all" if recipe.train_images is None else f"{recipe.train_images:,}"
    train, test = (next((run.data.get(part) for run in runs), None) for part in ("train", "test"))
    if not (isinstance(train, int) and isinstance(test, int)):
        return f"{used} training images"
    of = " " if recipe.train_images is None else " of "
    return f"{used}{of}{train:,} training images, {test:,} test images"


def notes_on_rows(rows: Sequence[Row]) -> Iterator[str]:
    """What is marked, what the rows mean, and what is unusual about their runs."""
    methods = {row.method for row in rows}
    oracle = ""
    if ORACLE in methods:
        oracle = "; CI[Oracle] is not eligible: it takes the best β of each column by looking at the test images"
    eligible, measured = eligible_rows(rows), measured_rows(rows)
    if measured and not eligible:
        yield "No value is marked as the best of its column while most rows lack seeds."
    else:
        fewer = ", of the rows with the most seeds" if len(eligible) < len(measured) else ""
        yield f"The best measured value of each column is marked{fewer}{oracle}."
    if "ts_case1" in methods:
        yield (
            "TS is the baseline with its temperature fitted on its training images (case 1), or trained on 90 % of "
            "them and fitted on the other 10 % (case 2)."
        )
    if methods.issuperset(CI):
        yield "No held-out image chose among the strengths of CI: to pick one from this table is what CI[Oracle] does."
    if "vwci_star" in methods:
        yield "VWCI* starts from a trained baseline, whose time is counted in."
    yield from (f"{row.title}: {row.remark}." for row in rows if row.remark)


def notes_on_smoothing(base: Recipe, store: ResultStore) -> Iterator[str]:
    """How the strength of label smoothing was chosen, and whether a better one may lie beyond those tried."""
    chosen = chosen_smoothing(base, store)
    if chosen is None:
        yield "The ε of label smoothing is not chosen yet: its runs on 90 % of the training images are missing."
        return
    yield (
        "The ε of label smoothing was chosen by the NLL on held-out images, 10 % of the training images, with one "
        "seed; the row is trained on all of them."
    )
    for end, epsilon in (("smallest", EPSILONS[0]), ("largest", EPSILONS[-1])):
        if chosen == f"smoothing_{epsilon:g}":
            tried = ", ".join(f"{one:g}" for one in EPSILONS)
            yield f"The chosen ε is the {end} of those tried ({tried}): one beyond it may be better."


def notes_on_paper(exhibit: str, base: Recipe, shown: Sequence[PublishedRow]) -> Iterator[str]:
    """Where the paper's numbers are printed, and at which scale it measured them."""
    if not shown:
        yield f"The paper has no numbers for {base.model} on this data set in this table."
        return
    source, table = shown[0].table, exhibit.removeprefix("table")
    lacks = f", since Table {table} has no {base.model} on {base.dataset}" if source != table else ""
    if source != table and OVER_BETA in (row.method for row in shown):
        lacks += " (CI and CI[Oracle] follow from its five β)"
    scale = scale_text(base_recipe("paper", dataset=base.dataset, model=base.model))
    yield f"Paper: Table {source}{lacks}; {scale}; it states no number of seeds."


def notes_on_time(rows: Sequence[Row]) -> Iterator[str]:
    """What the column of times compares."""
    trained = measured_rows(rows)
    unknown = "" if all(row.time for row in trained) else "; a dash where it is not known"
    if any(row.time and row.time.seeds != row.seeds for row in trained):
        unknown += "; in brackets the number of seeds it is known of, where that is not the row's"
    yield (
        "Time: processor time of training over the baseline's with the same seed, mean over seeds; searches for β or "
        f"ε are not counted{unknown}."
    )


def notes_on_runs(runs: Sequence[Result]) -> Iterator[str]:
    """In what the runs of one table differ that should be alike."""
    versions = {
        title: sorted({printable(str(run.environment.get(name))) for run in runs}) for name, title in _VERSIONS.items()
    }
    unlike = [f"{title} {', '.join(found)}" for title, found in versions.items() if len(found) > 1]
    if unlike:
        yield f"Runs of {'; '.join(unlike)}."
    machines = ({str(run.environment[name]) for run in runs if name in run.environment} for name in HARDWARE)
    if any(len(found) > 1 for found in machines):  # what a run does not know is no difference
        yield "The runs were made on unlike machines, which their times show as well."
    if any(run.data != runs[0].data for run in runs):
        yield "The runs were made with unlike images under the name of this data set."
