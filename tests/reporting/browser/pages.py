"""The page of the browser tests: three models, one of them with the parts of a run, and hostile names."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from singleshot.metrics.examples import Examples
from singleshot.reporting.page import ModelReport, file_report, write_page

HOSTILE = "<script>alert(1)</script>"
BREAKOUT = '"><img src=x onerror=alert(2)>'
COMMAND = f"singleshot report 0.npz 1.npz 2.npz --title 'Report of {HOSTILE}'"
NAMES = [HOSTILE, BREAKOUT, "a class with a rather long name, of which somebody may be proud", *map(str, range(3, 8))]
SECTIONS = (
    "verdicts", "metrics", "comparisons", "reliability", "histogram", "threshold", "curves", "passes", "classes",
    "confusions", "inspection", "training", "recipe",
)  # fmt: skip

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]


def predictions(seed: int, sharpness: float) -> tuple[Logits, Labels]:
    labels = np.random.default_rng(0).integers(0, len(NAMES), 700)
    logits = np.random.default_rng(seed).normal(size=(len(labels), len(NAMES)))
    logits[np.arange(len(labels)), labels] += 1.5
    return (logits * sharpness).astype(np.float32), labels


def seventeen_of_thirty_two() -> tuple[Logits, Labels]:
    """Right in 17/32 = 0.53125: Python rounds this tie to the even 0.5312."""
    logits = np.zeros((32, len(NAMES)), np.float32)
    logits[:, 1] = 3
    return logits, np.array([1] * 17 + [2] * 15)


MODELS = {"sharp": predictions(1, 2.5), "mild": predictions(2, 1.0), "<b>small & bold</b>": seventeen_of_thirty_two()}


def examples(name: str) -> Examples:
    logits, labels = MODELS[name]
    return Examples.of(logits=torch.tensor(logits), labels=torch.tensor(labels))


def picture() -> str:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), "teal").save(out, "png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def passes() -> dict[str, Any]:
    """Passes over a part of the examples: 200 bins, some of them and all above 0.285 empty."""
    random, bins = np.random.default_rng(3), 200
    count = np.where(np.arange(bins) < 57, random.integers(0, 3, bins) * random.integers(0, 90, bins), 0)
    count[56] = 4
    accuracy, score = (np.where(count > 0, random.random(bins), np.nan) for _ in range(2))
    edges = np.arange(bins + 1) / bins
    return {
        "samples": 5, "examples": int(count.sum()), "of": 50_000, "lower": edges[:-1].tolist(),
        "upper": edges[1:].tolist(), "count": count.tolist(), "accuracy": accuracy.tolist(), "score": score.tolist(),
        "coverage": (count.cumsum() / count.sum()).tolist(),
    }  # fmt: skip


def regrouped(found: dict[str, Any], wide: int, bars: int) -> list[list[float]]:
    """Merge the bins into bars; NaN if a bar is empty."""
    rows = []
    for bar in range(bars):
        chosen = range(bar * wide, min((bar + 1) * wide, len(found["count"])))
        count = [found["count"][k] for k in chosen]
        filled = [k for k in chosen if found["count"][k]]
        means = [
            sum(found["count"][k] * found[field][k] for k in filled) / sum(count) if filled else np.nan
            for field in ("accuracy", "score")
        ]
        rows.append(
            [found["lower"][chosen[0]], found["upper"][chosen[-1]], sum(count), *means, found["coverage"][chosen[-1]]]
        )
    return rows


def with_run_parts(report: ModelReport) -> ModelReport:
    example = {"image": picture(), "label": HOSTILE, "predicted": BREAKOUT, "confidence": 0.75, "index": 7}
    epoch = {"loss": 1.5, "train_accuracy": 0.5, "accuracy": 0.4, "ece": None, "nll": 1.25, "split": "validation"}
    return replace(
        report,
        inspection={"mistakes": [example], "correct": [example]},
        passes=passes(),
        training=[{"epoch": number, **epoch} for number in (1, 2, 3)],
        recipe={"loss": HOSTILE, "epochs": 3},
        environment={"torch": "2.13.0"},
        file=None,
    )


def write_three(folder: Path) -> Path:
    """Write the page of the three models."""
    reports = []
    for index, (name, (logits, labels)) in enumerate(MODELS.items()):
        file = folder / f"{index}.npz"
        np.savez(file, logits=logits, labels=labels, class_names=np.array(NAMES))
        report = file_report(file, name=name, replicates=20)
        reports.append(report if index else with_run_parts(report))
    path = folder / "report.html"
    write_page(reports, path, title=f"Report of {HOSTILE}", replicates=20, command=COMMAND)
    return path
