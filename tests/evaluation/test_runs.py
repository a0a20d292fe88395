"""Evaluation of a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from singleshot.evaluation import loaded_run as runs
from singleshot.evaluation.evaluation import evaluate_file
from singleshot.predictions import read_predictions
from singleshot.training import Recipe, Run, train


def test_a_run_has_the_metrics_of_its_predictions_and_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe(
        dataset="digits",
        model="resnet18",
        width=0.03125,
        image_size=16,
        train_images=100,
        validation=0.2,
        loss="cross_entropy",
        epochs=1,
        batch_size=16,
    )
    run = train(recipe, tmp_path / "run")
    calls: list[str] = []

    def count(target: Any, function: str, name: str) -> None:
        original = getattr(target, function)

        def counted(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(target, function, counted)

    count(runs, "load_images", "data")
    count(Run, "new_model", "model")
    count(runs, "write_predictions", "file")
    plain = runs.LoadedRun.open(run.folder).evaluate(replicates=20)
    assert calls == ["model", "data"]
    file = tmp_path / "out" / "p.npz"
    written = runs.LoadedRun.open(run.folder).evaluate(replicates=20, predictions=file)
    assert calls == ["model", "data"] * 2 + ["file"]
    predictions = read_predictions(file)
    assert predictions.class_names == run.info.class_names
    from_file = evaluate_file(predictions, replicates=20)
    assert plain.metrics() == written.metrics() == from_file.metrics()
    assert plain.intervals == from_file.intervals
    assert plain.source == {"run": str(run.folder), "split": "test", "weights": "last", "step": run.checkpoint().step}
    assert np.isfinite(plain.metrics()["ece"])
    held_out = runs.LoadedRun.open(run.folder, split="validation", weights="best").evaluate(replicates=0)
    assert held_out.about.startswith(f"{held_out.result.count:,} validation images, one forward pass")
    with pytest.raises(ValueError, match="split"):
        runs.LoadedRun.open(run.folder, split="dev")
