"""The quickstart: one small net on a few handwritten digits, trained six ways, with several seeds each.

The setting is one in which plain cross-entropy is overconfident. It was chosen by ``benchmarks/quickstart_setting.py``
from the baseline alone, on validation images and with seeds that are not used here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from singleshot.common.environment import describe_environment
from singleshot.data import split_digits
from singleshot.losses import ci_loss, cross_entropy_loss, label_smoothing_loss, vwci_loss
from singleshot.metrics import Calibration
from singleshot.models import SmallCNN
from singleshot.predictions import write_predictions
from singleshot.sampling import sample

if TYPE_CHECKING:
    from singleshot.report.page import ModelReport


@dataclass(frozen=True)
class Setting:
    """What every method shares."""

    train_images: int = 30  # so few that the net learns all of them by heart
    dropout: float = 0.1  # the noise whose disagreement VWCI measures
    epochs: int = 200  # long past the point where every training image is right
    learning_rate: float = 3e-3  # of Adam
    batch_size: int = 50
    samples: int = 5  # stochastic passes per step, for the methods that take several


@dataclass(frozen=True)
class Method:
    """A loss over logits (T, B, C), and whether it wants more than one pass."""

    loss: Callable[[Tensor, Tensor], Tensor]
    several_passes: bool


METHODS = {
    "cross-entropy": Method(cross_entropy_loss, several_passes=False),
    "cross-entropy, T = 5": Method(cross_entropy_loss, several_passes=True),
    "label smoothing 0.1": Method(lambda z, y: label_smoothing_loss(z, y, label_smoothing=0.1), several_passes=False),
    "CI 0.1": Method(lambda z, y: ci_loss(z, y, beta=0.1), several_passes=False),
    "VWCI": Method(vwci_loss, several_passes=True),
    "VWCI total variation": Method(lambda z, y: vwci_loss(z, y, measure="total_variation"), several_passes=True),
}


@dataclass(frozen=True)
class Run:
    """One training run: its place in the grid, its cost, where it was made, and what it gave on unseen images."""

    method: str
    seed: int
    seconds: float
    environment: dict[str, Any]
    calibration: Calibration

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the metrics to read, and the calibration state they come from."""
        result = self.calibration.compute()
        return {**vars(self), "metrics": result.metrics(), "calibration": self.calibration.to_dict()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Run:
        """The run that `to_dict` wrote."""
        calibration = Calibration.from_dict(content["calibration"])
        environment = dict(content["environment"])
        return cls(str(content["method"]), int(content["seed"]), float(content["seconds"]), environment, calibration)


def train_and_evaluate(
    setting: Setting,
    method: str,
    seed: int,
    evaluate_on: Literal["test", "validation"] = "test",
    predictions: Path | None = None,
) -> Run:
    """Train from this seed, on one thread, and measure single-pass predictions on the split that is asked for.

    They are kept in the .npz file ``predictions``, if one is named.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    data = split_digits(setting.train_images, seed)
    started = time.perf_counter()
    model = SmallCNN(num_classes=10, dropout=setting.dropout)
    _train(model, data.train.normalized(), data.train.labels, setting, METHODS[method])
    seconds = time.perf_counter() - started

    held_out = data.test if evaluate_on == "test" else data.validation
    calibration = Calibration(bins=20)
    model.eval()
    with torch.no_grad():
        logits = model(held_out.normalized())
    calibration.update(logits=logits, labels=held_out.labels)
    if predictions is not None:
        write_predictions(predictions, [(logits.numpy(), held_out.labels.numpy())])
    return Run(method, seed, seconds, describe_environment(), calibration)


def _train(model: SmallCNN, images: Tensor, labels: Tensor, setting: Setting, method: Method) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
    passes = setting.samples if method.several_passes else 1
    model.train()
    for _ in range(setting.epochs):
        for batch in torch.split(torch.randperm(len(labels)), setting.batch_size):
            loss = method.loss(sample(model, images[batch], samples=passes), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


TITLE = "Quickstart: a small net on a few handwritten digits, trained six ways"
SHOWN_SEED = 0
"""All seeds are judged by the same images: taken together, these would pass for more examples than there are."""


def predictions_file(folder: Path, method: str, seed: int) -> Path:
    """Where the predictions of a method are.

    >>> predictions_file(Path("p"), "cross-entropy, T = 5", 3).as_posix()
    'p/seed-3/cross-entropy-t-5.npz'
    """
    name = re.sub("[^a-z0-9.]+", "-", method.lower())
    return folder / f"seed-{seed}" / f"{name}.npz"


def are_there(folder: Path, methods: Sequence[str]) -> bool:
    """Whether every method has the predictions that the page shows; results of earlier versions have none."""
    return all(predictions_file(folder, method, SHOWN_SEED).is_file() for method in methods)


def write_quickstart_page(folder: Path, methods: Sequence[str], page: Path) -> None:
    """Write the page about all methods, of each the first seed."""
    from singleshot.report.page import file_report, write_page

    def reports() -> Iterator[ModelReport]:
        for method in methods:
            report = file_report(predictions_file(folder, method, SHOWN_SEED), name=method)
            yield replace(report, about=f"seed {SHOWN_SEED}: {report.about}")

    write_page(reports(), page, title=TITLE)
