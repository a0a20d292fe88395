"""The quickstart: a small network on a few handwritten digits, trained with six methods and several seeds.

Plain cross-entropy is overconfident in this setting. ``benchmarks/quickstart_setting.py`` selected it from the baseline
alone, on validation images and with seeds that are not used here.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from singleshot.common.checks import check_choice
from singleshot.common.environment import describe_environment
from singleshot.data import split_digits
from singleshot.grid.job import Job, Result
from singleshot.grid.store import ResultStore
from singleshot.metrics import Calibration, CalibrationResult
from singleshot.models import SmallCNN
from singleshot.paper.methods import METHODS
from singleshot.paper.published import BETTER
from singleshot.paper.seed_means import Estimate, pool
from singleshot.predictions import write_predictions
from singleshot.sampling import sample
from singleshot.training.display import Callback
from singleshot.training.recipe import Recipe
from singleshot.training.step import loss_and_alpha

if TYPE_CHECKING:
    from singleshot.reporting.page import ModelReport

TITLES = {
    "baseline": "cross-entropy",
    "passes": "cross-entropy, T = 5",
    "smoothing_0.1": "label smoothing 0.1",
    "ci_0.1": "CI 0.1",
    "vwci": "VWCI",
    "vwci_total_variation": "VWCI total variation",
}
"""The methods of the quickstart, names of `methods.METHODS`, with their titles."""
SHOWN_SEED = 0
"""The seed on the page: seeds share their test images, so pooled predictions are not independent."""


@dataclass(frozen=True)
class Setting:
    """What all methods share."""

    train_images: int = 200  # few enough for the network to memorise all of them
    dropout: float = 0.1  # the noise whose disagreement VWCI measures
    epochs: int = 100  # more than needed to classify every training image correctly
    learning_rate: float = 3e-3  # of Adam
    batch_size: int = 50
    samples: int = 5  # stochastic passes per step, for the methods with several


@dataclass(frozen=True)
class QuickstartJob(Job):
    """Train the small network with one method and measure single-pass predictions."""

    method: str
    seed: int
    setting: Setting = Setting()

    def __post_init__(self) -> None:
        check_choice("method", self.method, tuple(TITLES))

    @property
    def title(self) -> str:
        """Method and seed."""
        return f"{TITLES[self.method]}, seed {self.seed}"

    @property
    def folder(self) -> str:
        """One subfolder for all runs."""
        return "digits/small_cnn"

    def execute(self, workspace: Path, *, data_root: Path | None = None, callback: Callback | None = None) -> Result:
        """Train, keep the test predictions in ``workspace``, and return the result."""
        return self.train_and_evaluate("test", predictions_file(workspace, self.method, self.seed))

    def train_and_evaluate(
        self, split: Literal["test", "validation"] = "test", predictions: Path | None = None
    ) -> Result:
        """Train on one thread and measure the predictions for a split, writing them to ``predictions`` if it is set."""
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        data = split_digits(self.setting.train_images, self.seed)
        started = time.perf_counter()
        model = SmallCNN(num_classes=10, dropout=self.setting.dropout)
        self._train(model, data.train.normalized(), data.train.labels)
        seconds = time.perf_counter() - started
        images = data.test if split == "test" else data.validation
        model.eval()
        with torch.no_grad():
            logits = model(images.normalized())
        calibration = Calibration(bins=20)
        calibration.update(logits=logits, labels=images.labels)
        if predictions is not None:
            write_predictions(predictions, [(logits.numpy(), images.labels.numpy())])
        return _result(self, seconds, describe_environment(), calibration)

    def _train(self, model: SmallCNN, images: Tensor, labels: Tensor) -> None:
        setting, recipe = self.setting, recipe_for(self.method, self.setting)
        optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
        model.train()
        for _ in range(setting.epochs):
            for batch in torch.split(torch.randperm(len(labels)), setting.batch_size):
                logits = sample(model, images[batch], samples=recipe.passes)
                loss, _ = loss_and_alpha(logits, labels[batch], recipe)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()


def recipe_for(method: str, setting: Setting) -> Recipe:
    """Return the recipe with the loss and the number of passes of a method."""
    recipe = replace(Recipe(), **METHODS[method].changes)
    return recipe if recipe.samples is None else replace(recipe, samples=setting.samples)


def _result(job: QuickstartJob, seconds: float, environment: dict[str, Any], calibration: Calibration) -> Result:
    examples = int(calibration.compute().count)
    data = {"train": job.setting.train_images, "test": examples, "classes": 10}
    return Result(job, seconds, None, "cpu", environment, data, {"test": calibration})


def quickstart_jobs(seeds: int) -> list[QuickstartJob]:
    """Return every job, seed by seed, so that an interrupted grid has complete seeds."""
    return [QuickstartJob(method, seed) for seed in range(seeds) for method in TITLES]


def import_old_results(path: Path, store: ResultStore) -> None:
    """Add the runs in a results file of version 0.1, which held all runs."""
    methods = {title: method for method, title in TITLES.items()}
    results = []
    try:
        old = json.loads(path.read_bytes())
        for run in old["runs"]:
            content = {"method": methods[run["method"]], "seed": run["seed"], "setting": old["setting"]}
            job, calibration = QuickstartJob.from_dict(content), Calibration.from_dict(run["calibration"])
            imported = _result(job, run["seconds"], run["environment"], calibration).to_dict()
            results.append(Result.from_dict(imported, QuickstartJob, str(path)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise ValueError(
            f"{path} holds no quickstart results ({error}); choose another --output, or use --restart"
        ) from None
    for result in results:
        if result.job not in store:
            store.add(result)


@dataclass(frozen=True)
class MethodSummary:
    """Estimates over the seeds of one method, and the calibration of all seeds pooled."""

    title: str
    metrics: dict[str, Estimate]
    pooled: CalibrationResult


def summarize(store: ResultStore, seeds: int) -> list[MethodSummary]:
    """Return the summary of each method from its first ``seeds`` runs."""
    summaries = []
    for method, title in TITLES.items():
        results = [store[QuickstartJob(method, seed)] for seed in range(seeds)]
        values = [{**result.metrics(), "train_seconds": result.seconds} for result in results]
        metrics = {name: Estimate.of([one[name] for one in values]) for name in values[0]}
        summaries.append(MethodSummary(title, metrics, pool(results)))
    return summaries


HEADINGS = {"accuracy": "accuracy", "ece": "ECE", "mce": "MCE", "nll": "NLL", "brier": "Brier"}


def table_rows(summaries: Sequence[MethodSummary], bold: tuple[str, str]) -> list[list[str]]:
    """Return the heading and the rows of the comparison, the best mean of each column wrapped in ``bold``."""
    best = {metric: BETTER[metric](one.metrics[metric].mean for one in summaries) for metric in HEADINGS}
    rows = [["method", *HEADINGS.values(), "training"]]
    for summary in summaries:
        estimates = {metric: summary.metrics[metric] for metric in HEADINGS}
        cells = [f"{bold[0]}{one}{bold[1]}" if one.mean == best[name] else str(one) for name, one in estimates.items()]
        rows.append([summary.title, *cells, f"{summary.metrics['train_seconds'].mean:.1f} s"])
    return rows


def predictions_file(folder: Path, method: str, seed: int) -> Path:
    """Return the path of the predictions of a run.

    >>> predictions_file(Path("p"), "passes", 3).as_posix()
    'p/seed-3/cross-entropy-t-5.npz'
    """
    name = re.sub("[^a-z0-9.]+", "-", TITLES[method].lower())
    return folder / f"seed-{seed}" / f"{name}.npz"


def has_predictions(folder: Path) -> bool:
    """Whether the predictions on the page exist; they do not for imported results."""
    return all(predictions_file(folder, method, SHOWN_SEED).is_file() for method in TITLES)


def write_quickstart_page(folder: Path, page: Path) -> None:
    """Write the page about the first seed of all methods."""
    from singleshot.reporting.page import file_report, write_page

    def reports() -> Iterator[ModelReport]:
        for method, title in TITLES.items():
            report = file_report(predictions_file(folder, method, SHOWN_SEED), name=title)
            yield replace(report, about=f"seed {SHOWN_SEED}: {report.about}")

    write_page(reports(), page, title="Quickstart: a small net on a few handwritten digits, trained six ways")
