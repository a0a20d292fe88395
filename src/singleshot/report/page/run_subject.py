"""A trained run on a page: its predictions, the images it gets wrong, what its noise says, and how it was trained."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from singleshot.data import Images
from singleshot.evaluation.formatting import amount
from singleshot.evaluation.runs import LoadedRun
from singleshot.metrics.variance_histogram import VarianceHistogram
from singleshot.report.page.classes import AnswerGathering
from singleshot.report.page.gallery import EDGE, gallery
from singleshot.report.page.subject import (
    FINE_BINS,
    Subject,
    evaluate_command,
    measured as measured_with,
    measured_options,
    passes_data,
)
from singleshot.sampling import sample
from singleshot.sampling.noise import noise_layers
from singleshot.training.inference import BATCH, quiet
from singleshot.training.metrics_log import read_records
from singleshot.training.processes import Processes
from singleshot.training.run import METRICS, Run

SAMPLES = 5
MOST_SAMPLED = 10_000
"""Images that the stochastic passes look at: enough for a histogram, and seconds of work."""
SPLITS = ("validation", "test")


def subject_of_run(
    folder: Path,
    *,
    name: str | None = None,
    split: str = "test",
    weights: str = "last",
    data_root: Path | None = None,
    device: str = "auto",
    replicates: int | None = None,
    edge: int = EDGE,
) -> Subject:
    """A run, measured as ``singleshot evaluate RUN`` does it, with images of at most ``edge`` pixels."""
    loaded = LoadedRun.open(folder, split=split, weights=weights, data_root=data_root, device=device)
    run, part, positions, step = loaded.run, loaded.images, loaded.positions, loaded.step
    gathering = AnswerGathering(len(run.facts.class_names))
    evaluation = loaded.evaluate(**measured_options(gathering, replicates))
    measured = measured_with(evaluation, gathering, len(run.facts.class_names), run.facts.class_names, replicates)
    examples, names = measured.evaluation.examples, run.facts.class_names
    assert examples is not None
    size = amount(len(positions), f"{split} image")
    options = {"split": (split, "test"), "weights": (weights, "last"), "data-root": (data_root, None)}
    changed = {option: value for option, (value, default) in options.items() if value != default}
    flags = [word for option, value in changed.items() for word in (f"--{option}", str(value))]
    return Subject(
        name=str(folder) if name is None else name,
        about=f"{size}, one forward pass each, after step {step:,}; {measured.about()}",
        command=evaluate_command(folder, flags, replicates),
        measured=measured,
        gallery=gallery(measured.answers, examples, part, positions, names, edge=edge),
        passes=stochastic_passes(run, weights, part, positions, device),
        training=training_curve(run.folder / METRICS),
        recipe=asdict(run.recipe),
        environment=run.facts.environment,
    )


def stochastic_passes(
    run: Run, weights: str, part: Images, positions: Tensor, device: str = "auto"
) -> dict[str, Any] | None:
    """How accuracy and score fall as T passes disagree more; None for a network without noise."""
    target = Processes.from_environment(device).device
    model = run.load_model(weights).to(target)
    if not noise_layers(model):
        return None
    normalization = run.normalization(target)
    histogram = VarianceHistogram(FINE_BINS)
    # spread over all of them: images may be in the order of their classes
    chosen = positions[:: -(-len(positions) // MOST_SAMPLED)]
    with quiet(model):
        for start in range(0, len(chosen), BATCH):
            index = chosen[start : start + BATCH]
            images = normalization(part.images[index].to(target))
            logits = sample(model, images, samples=SAMPLES, seed=start).float().cpu()
            histogram.update(logits=logits, labels=part.labels[index])
    return passes_data(histogram.compute(), SAMPLES, of=len(positions))


def training_curve(log: Path) -> list[dict[str, Any]] | None:
    """What a run recorded of each epoch; None where there is nothing."""
    if not log.is_file():
        return None
    epochs = [record for record in read_records(log) if record.get("kind") == "epoch"]
    return [_epoch(record) for record in epochs if _number(record.get("epoch")) is not None] or None


def _epoch(record: dict[str, Any]) -> dict[str, Any]:
    split = next((name for name in SPLITS if isinstance(record.get(name), dict)), None)
    judged = record[split] if split is not None else {}
    return {
        "epoch": record["epoch"],
        **{name: _number(record.get(name)) for name in ("loss", "train_accuracy")},
        **{name: _number(judged.get(name)) for name in ("accuracy", "ece", "nll")},
        "split": split,
    }


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None
