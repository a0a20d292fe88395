"""Everything the page shows about one model: a file of predictions or a trained run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from singleshot.common.environment import describe_environment
from singleshot.common.files import fingerprint
from singleshot.data import Images
from singleshot.evaluation.evaluation import (
    DEFAULT_REPLICATES,
    MAX_RESAMPLED,
    Evaluation,
    evaluate_file,
    resampled_groups,
)
from singleshot.evaluation.formatting import amount
from singleshot.evaluation.gain import Gain, ScoreSample, cross_fitted_gain, held_out_gain
from singleshot.evaluation.loaded_run import LoadedRun
from singleshot.evaluation.verdict import Verdict, verdict
from singleshot.metrics.examples import ScoredBatch
from singleshot.metrics.variance_histogram import VarianceHistogram
from singleshot.predictions import read_predictions
from singleshot.reporting.page.next_step import command_line, fix_of_file, fix_of_run, next_step
from singleshot.reporting.page.outcomes import ClassIndices, Outcomes, examples_to_inspect
from singleshot.sampling import sample
from singleshot.sampling.noise import noise_layers
from singleshot.training.inference import BATCH, image_batches, logits_of
from singleshot.training.metrics_log import read_records
from singleshot.training.run import METRICS_LOG

DEFAULT_BINS = 20
VARIANCE_BINS = 200
"""The page merges these bins over the range in use: most variances of a good model are close to 0."""
SAMPLES = 5
MAX_SAMPLED = 10_000
"""Images of a run that are sampled: enough for a histogram, and a matter of seconds."""


@dataclass(frozen=True, eq=False)
class ModelReport:
    """A model on the page."""

    name: str
    about: str
    command: str  # that prints the same numbers
    evaluation: Evaluation
    verdict: Verdict
    next_step: dict[str, Any]
    outcomes: Outcomes
    inspection: dict[str, Any]
    passes: dict[str, Any] | None = None
    training: list[dict[str, Any]] | None = None
    recipe: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    file: dict[str, int | str] | None = None  # size and checksum of the file of predictions


def file_report(
    path: Path,
    *,
    name: str | None = None,
    bins: int = DEFAULT_BINS,
    replicates: int | None = None,
    images: Images | None = None,
    **options: Any,
) -> ModelReport:
    """Evaluate a file of predictions like ``singleshot evaluate FILE``, with the options of `read_predictions`.

    ``images`` are the predicted images in the order of the file.
    """
    predictions = read_predictions(path, **options)
    evaluate = partial(evaluate_file, predictions, bins=bins, replicates=replicates)
    evaluation, outcomes, sample = evaluate_with_outcomes(evaluate, predictions.known_classes, predictions.class_names)
    if images is not None and not np.array_equal(outcomes.labels, images.labels.numpy()):
        raise ValueError(
            f"{path} does not contain predictions for these images: its {amount(len(outcomes.labels), 'label')} differ "
            f"from those of the {amount(len(images), 'image')}; omit --dataset or use another --split"
        )
    found = verdict(evaluation)
    gain = cross_fitted_gain(*sample.examples(), bins=bins) if found.level in {"fair", "bad"} else None
    return ModelReport(
        name=str(path) if name is None else name,
        about=describe(evaluation, replicates),
        command=command_line("evaluate", path, **options, bins=bins, replicates=replicates),
        evaluation=evaluation,
        verdict=found,
        next_step=next_step(
            found, gain, partial(fix_of_file, path, options), method="isotonic" if sample.is_empty else "temperature"
        ),
        outcomes=outcomes,
        inspection=examples_to_inspect(outcomes, images),
        passes=_histogram(predictions.pass_batches(), predictions.passes) if predictions.passes else None,
        environment=describe_environment(),
        file=fingerprint(path),
    )


def run_report(
    folder: Path, *, name: str | None = None, bins: int = DEFAULT_BINS, replicates: int | None = None, **options: Any
) -> ModelReport:
    """Evaluate a trained run like ``singleshot evaluate RUN``, with the options of `LoadedRun.open`."""
    loaded = LoadedRun.open(folder, **options)
    run, class_names = loaded.run, loaded.run.info.class_names
    evaluate = partial(loaded.evaluate, bins=bins, replicates=replicates)
    evaluation, outcomes, sample = evaluate_with_outcomes(evaluate, len(class_names), class_names)
    found = verdict(evaluation)
    gain = None
    if found.level in {"fair", "bad"} and loaded.split != "train":
        gain = _gain_of_run(loaded, sample, bins, options)
    fix = partial(fix_of_run, folder, options, holds_out=run.recipe.holds_out)
    return ModelReport(
        name=str(folder) if name is None else name,
        about=describe(evaluation, replicates),
        command=command_line("evaluate", folder, **options, bins=bins, replicates=replicates),
        evaluation=evaluation,
        verdict=found,
        next_step=next_step(found, gain, fix, of_training=loaded.split == "train"),
        outcomes=outcomes,
        inspection=examples_to_inspect(outcomes, loaded.images, loaded.positions),
        passes=_sampled_passes(loaded),
        training=training_curve(run.folder / METRICS_LOG),
        recipe=asdict(run.recipe),
        environment=run.info.environment,
    )


def evaluate_with_outcomes(
    evaluate: Callable[..., Evaluation], classes: int, class_names: tuple[str, ...] | None
) -> tuple[Evaluation, Outcomes, ScoreSample]:
    """Evaluate in one pass that also keeps each example's class indices, in few bytes, and some examples' scores."""
    dtype = np.min_scalar_type(max(classes - 1, 0))
    kept: list[tuple[ClassIndices, ClassIndices]] = []
    sample = ScoreSample()

    def keep(batch: ScoredBatch) -> None:
        kept.append((batch.predicted().numpy().astype(dtype), batch.labels.numpy().astype(dtype)))
        sample.add(batch)

    evaluation = evaluate(keep_examples=True, on_batch=keep)
    assert evaluation.examples is not None
    predicted, labels = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return evaluation, Outcomes(predicted, labels, evaluation.examples, classes, class_names), sample


def _gain_of_run(loaded: LoadedRun, sample: ScoreSample, bins: int, options: dict[str, Any]) -> Gain | None:
    """The gain of a calibration fitted on the validation images, or on these images if there are none."""
    if loaded.split != "test" or not loaded.run.recipe.holds_out:
        return cross_fitted_gain(*sample.examples(), bins=bins)
    held_out = LoadedRun.open(loaded.run.folder, **{**options, "split": "validation"})
    what = f"the {amount(len(held_out.positions), 'validation image')} of the run"
    fitted = logits_of(held_out.model, held_out.images, held_out.positions, held_out.normalization)
    return held_out_gain(fitted, *sample.examples(), what=what, bins=bins)


def describe(evaluation: Evaluation, replicates: int | None) -> str:
    """Describe an evaluation and how its intervals were computed."""
    count = evaluation.result.count
    intervals = "no intervals"
    if evaluation.intervals:
        groups = resampled_groups(count)
        of_groups = f" of {groups:,} groups of examples" if groups else ""
        intervals = f"95 % intervals from {replicates or DEFAULT_REPLICATES:,} resamples{of_groups}"
    elif count > MAX_RESAMPLED and replicates is None:
        intervals = f"no intervals by default above {MAX_RESAMPLED:,} examples"
    return f"{evaluation.about}; accuracy {100 * evaluation.result.accuracy:.1f} %; {intervals}"


def training_curve(log: Path) -> list[dict[str, Any]] | None:
    """Return the logged metrics of each epoch; None if there are none."""
    epochs = []
    strength = None
    for record in read_records(log):
        if record.get("kind") == "strength":
            strength = _number(record.get("strength"))
        if record.get("kind") == "epoch" and _number(record.get("epoch")) is not None:
            split = next((name for name in ("validation", "test") if isinstance(record.get(name), dict)), None)
            values = {"loss": record.get("loss"), "train_accuracy": record.get("train_accuracy"), "strength": strength}
            values |= {name: record[split].get(name) if split else None for name in ("accuracy", "ece", "nll")}
            numbers = {name: _number(value) for name, value in values.items()}
            epochs.append({"epoch": record["epoch"], **numbers, "split": split})
    return epochs or None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None


def _sampled_passes(loaded: LoadedRun) -> dict[str, Any] | None:
    """Return the variance histogram of sampled passes; None for a model without noise layers."""
    if not noise_layers(loaded.model):
        return None
    # Every n-th image, because the images may be sorted by class.
    chosen = loaded.positions[:: -(-len(loaded.positions) // MAX_SAMPLED)]
    with torch.no_grad():
        return _histogram(_sampled(loaded, chosen), SAMPLES, total=len(loaded.positions))


def _sampled(loaded: LoadedRun, positions: Tensor) -> Iterator[dict[str, Tensor]]:
    for number, (images, labels) in enumerate(image_batches(loaded.images, positions, loaded.normalization)):
        logits = sample(loaded.model, images, samples=SAMPLES, seed=number * BATCH)
        yield {"logits": logits.float().cpu(), "labels": labels.cpu()}


def _histogram(batches: Iterable[dict[str, Any]], samples: int, *, total: int | None = None) -> dict[str, Any]:
    histogram = VarianceHistogram(VARIANCE_BINS)
    for batch in batches:
        histogram.update(**batch)
    bins = histogram.compute()
    examples = int(bins.count.sum())
    return {"samples": samples, "examples": examples, "of": examples if total is None else total, **vars(bins)}
