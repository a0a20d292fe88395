"""Search for a disagreement measure on validation images of digits, with seeds that are used nowhere else.

    python benchmarks/alpha_search.py

Regimes range from a network that has memorised a few images to a well-calibrated one with strong noise. The measure
should be large in the first and small in the last, without tuning. Each row is written to results/alpha_search.json
when it is finished; repeat the command to resume. No test image is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from singleshot.common.files import write_text
from singleshot.data import split_digits
from singleshot.losses import cross_entropy_loss, vwci_loss
from singleshot.metrics import Calibration
from singleshot.models import SmallCNN
from singleshot.paper.quickstart import Setting
from singleshot.sampling import sample
from singleshot.uncertainty import MEASURES, DisagreementMeasure

OUTPUT = Path(__file__).resolve().parent.parent / "results" / "alpha_search.json"
SEEDS = range(2000, 2005)
REGIMES = {
    "30 images, dropout 0.1": Setting(train_images=30, dropout=0.1),
    "30 images, dropout 0.2": Setting(train_images=30, dropout=0.2),
    "30 images, dropout 0.5": Setting(train_images=30, dropout=0.5),
    "50 images, dropout 0.2": Setting(train_images=50, dropout=0.2),
    "100 images, dropout 0.2": Setting(train_images=100, dropout=0.2),
    "300 images, dropout 0.2": Setting(train_images=300, dropout=0.2),
    "100 images, dropout 0.5, 60 epochs": Setting(train_images=100, dropout=0.5, epochs=60),
    "300 images, dropout 0.5, 60 epochs": Setting(train_images=300, dropout=0.5, epochs=60),
}


def _entropy(probs: Tensor) -> Tensor:
    plogp: Tensor = torch.special.xlogy(probs, probs)
    return -plogp.sum(-1)


def epistemic_share(log_probs: Tensor) -> Tensor:
    """Return the share of the entropy of the mean that is due to disagreement."""
    probs = log_probs.exp()
    total = _entropy(probs.mean(0))
    information = total - _entropy(probs).mean(0)
    return (information / total.clamp(min=1e-12)).clamp(0, 1)


def _total_variation(log_probs: Tensor) -> Tensor:
    return MEASURES["total_variation"](log_probs)


def _doubt(log_probs: Tensor) -> Tensor:
    return 1 - log_probs.exp().mean(0).amax(-1)


CANDIDATES: dict[str, DisagreementMeasure] = {
    "total variation × epistemic share": lambda z: _total_variation(z) * epistemic_share(z),
    "Hellinger × epistemic share": lambda z: MEASURES["hellinger"](z) * epistemic_share(z),
    "total variation × √(epistemic share)": lambda z: _total_variation(z) * epistemic_share(z).sqrt(),
    "total variation × confidence": lambda z: _total_variation(z) * (1 - _doubt(z)),
    "total variation beyond doubt": lambda z: (
        _total_variation(z) ** 2 / (_total_variation(z) + _doubt(z)).clamp(min=1e-12)
    ),
    "√((1 − BC) × total variation)": lambda z: (MEASURES["bhattacharyya"](z) * _total_variation(z)).sqrt(),
}
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy, 1 pass": cross_entropy_loss,
    **{name: partial(vwci_loss, measure=measure) for name, measure in {**MEASURES, **CANDIDATES}.items()},
}


def validation_metrics(setting: Setting, method: str, seed: int) -> dict[str, float]:
    """Train and return the single-pass metrics on the validation images."""
    torch.manual_seed(seed)
    data = split_digits(setting.train_images, seed)
    model = SmallCNN(num_classes=10, dropout=setting.dropout)
    images, labels = data.train.normalized(), data.train.labels
    optimizer = torch.optim.Adam(model.parameters(), lr=setting.learning_rate)
    passes = 1 if method == "cross-entropy, 1 pass" else setting.samples
    model.train()
    for _ in range(setting.epochs):
        for batch in torch.split(torch.randperm(len(labels)), setting.batch_size):
            loss = LOSSES[method](sample(model, images[batch], samples=passes), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    calibration = Calibration(bins=20)
    model.eval()
    with torch.no_grad():
        calibration.update(logits=model(data.validation.normalized()), labels=data.validation.labels)
    metrics = calibration.compute().metrics()
    return {name: metrics[name] for name in ("accuracy", "ece", "nll", "overconfidence", "underconfidence")}


def main() -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    known = {(row["regime"], row["method"], row["seed"]) for row in rows}
    for seed in SEEDS:
        for regime, setting in REGIMES.items():
            for method in LOSSES:
                if (regime, method, seed) in known:
                    continue
                found = validation_metrics(setting, method, seed)
                rows.append({"regime": regime, "method": method, "seed": seed, **found})
                write_text(OUTPUT, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print_table(rows)


def print_table(rows: list[dict[str, object]]) -> None:
    """Print mean ECE and NLL per regime and measure, and the mean regret: the NLL above the best measure."""
    table = Table(title=f"ECE / NLL on validation digits, {len(SEEDS)} seeds; regret: mean NLL above the best measure")
    for heading in ("regime", *LOSSES):
        table.add_column(heading)
    regrets: dict[str, list[float]] = {method: [] for method in LOSSES}
    for regime in REGIMES:
        means = {}
        for method in LOSSES:
            found = [row for row in rows if row["regime"] == regime and row["method"] == method]
            means[method] = tuple(fmean(float(str(row[name])) for row in found) for name in ("ece", "nll"))
        best = min(nll for _, nll in means.values())
        for method, (_, nll) in means.items():
            regrets[method].append(nll - best if math.isfinite(nll) else math.inf)
        table.add_row(regime, *(f"{ece:.3f} / {nll:.3f}" for ece, nll in means.values()))
    table.add_row("regret", *(f"{fmean(values):.3f}" for values in regrets.values()))
    Console(width=300).print(table)


if __name__ == "__main__":
    main()
