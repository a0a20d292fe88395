"""The caption and the notes of a table: its scale, how rows were made, and differences between its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from singleshot.common.environment import HARDWARE
from singleshot.common.text import printable
from singleshot.grid.job import Result
from singleshot.grid.store import ResultStore
from singleshot.paper.experiments import select_smoothing
from singleshot.paper.methods import CI, EPSILONS, base_recipe
from singleshot.paper.published import CI_MEAN, CI_ORACLE, PublishedRow
from singleshot.paper.seed_means import Estimate
from singleshot.training.recipe import Recipe

_VERSIONS = {"revision": "revisions", "singleshot": "singleshot", "torch": "torch"}


def describe_scale(recipe: Recipe, results: Sequence[Result] = ()) -> str:
    """Return the size of the network, the images and the training, and the size of the data set if it has results."""
    images = "all" if recipe.train_images is None else f"{recipe.train_images:,}"
    if results:
        of = "" if recipe.train_images is None else " of"
        images += f"{of} {results[0].data['train']:,} training images, {results[0].data['test']:,} test images"
    else:
        images += " training images"
    size = f"{recipe.image_size}×{recipe.image_size} pixels"
    return f"width {recipe.width:g}, {size}, {images}, {recipe.epochs} epochs"


def row_notes(methods: Sequence[str], eligible: int, measured: int) -> Iterator[str]:
    """Explain the marked values and the rows."""
    oracle = ""
    if CI_ORACLE in methods:
        oracle = "; CI[Oracle] is not eligible: it takes the best β of each column by looking at the test images"
    if measured and not eligible:
        yield "No value is marked as the best of its column while most rows lack seeds."
    else:
        fewer = ", of the rows with the most seeds" if eligible < measured else ""
        yield f"The best measured value of each column is marked{fewer}{oracle}."
    if "ts_case1" in methods:
        yield (
            "TS is the baseline with its temperature fitted on its training images (case 1), or trained on 90 % of "
            "them and fitted on the other 10 % (case 2)."
        )
    if set(methods).issuperset(CI):
        yield "β was not selected on held-out images: picking the best row of this table amounts to CI[Oracle]."
    if "vwci_star" in methods:
        yield "VWCI* starts from a trained baseline; its time includes that of the baseline."


def smoothing_notes(base: Recipe, store: ResultStore) -> Iterator[str]:
    """Explain how the ε of label smoothing was selected, and whether a better one may lie outside the candidates."""
    selected = select_smoothing(base, store)
    if selected is None:
        yield "The ε of label smoothing is not selected yet: its runs on 90 % of the training images are missing."
        return
    yield (
        "The ε of label smoothing was selected by the NLL on held-out images, 10 % of the training images, with one "
        "seed; the row is trained on all of them."
    )
    for end, epsilon in (("smallest", EPSILONS[0]), ("largest", EPSILONS[-1])):
        if selected == f"smoothing_{epsilon:g}":
            candidates = ", ".join(f"{one:g}" for one in EPSILONS)
            yield f"The selected ε is the {end} candidate ({candidates}): a value beyond it may be better."


def paper_note(experiment: str, base: Recipe, rows: Sequence[PublishedRow]) -> str:
    """Name the table of the paper that the published rows come from, and the scale of its experiments."""
    if not rows:
        return f"The paper has no numbers for {base.model} on this data set in this table."
    source, table = rows[0].table, experiment.removeprefix("table")
    reason = f", since Table {table} has no {base.model} on {base.dataset}" if source != table else ""
    if source != table and CI_MEAN in (row.method for row in rows):
        reason += " (CI and CI[Oracle] follow from its five β)"
    scale = describe_scale(base_recipe("paper", dataset=base.dataset, model=base.model))
    return f"Paper: Table {source}{reason}; {scale}; the number of seeds is not stated."


def time_note(times: Sequence[tuple[Estimate | None, int]]) -> str:
    """Explain the column of training times, given the time and the number of seeds of each measured row."""
    unknown = "" if all(time for time, _ in times) else "; a dash if it is not known"
    if any(time and time.seeds != seeds for time, seeds in times):
        unknown += "; in brackets the number of seeds with known times, if it differs"
    return (
        "Time: processor time of training relative to the baseline with the same seed, mean over seeds, without the "
        f"search for β or ε{unknown}."
    )


def run_notes(results: Sequence[Result]) -> Iterator[str]:
    """Report different versions, machines or images among the runs."""
    versions = {
        title: sorted({printable(str(result.environment.get(name))) for result in results})
        for name, title in _VERSIONS.items()
    }
    different = [f"{title} {', '.join(found)}" for title, found in versions.items() if len(found) > 1]
    if different:
        yield f"Runs of {'; '.join(different)}."
    machines = ({str(one.environment[name]) for one in results if name in one.environment} for name in HARDWARE)
    if any(len(found) > 1 for found in machines):  # an unknown value is no difference
        yield "The runs were made on different machines, which affects their times."
    if any(result.data != results[0].data for result in results):
        yield "The runs were made with different images under the name of this data set."
