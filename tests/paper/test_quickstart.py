from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import singleshot as ss
from singleshot.models import SmallCNN
from singleshot.paper import quickstart
from singleshot.paper.measurements import Estimate
from singleshot.paper.quickstart import METHODS, Run, Setting, train_and_evaluate
from singleshot.paper.quickstart_grid import RunStore, markdown_table, run_grid, summarize

QUICK = Setting(epochs=2)


def fake_run(method: str, seed: int, confidence: float = 0.9) -> Run:
    calibration = ss.Calibration(bins=20)
    probs = torch.tensor([[confidence, 1 - confidence]], dtype=torch.float64)
    calibration.update(probs=probs.repeat(4, 1), labels=torch.tensor([0, 0, 0, seed % 2]))
    return Run(method, seed, 1.5, {"torch": "2"}, calibration)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_repeats_from_its_seed(method: str) -> None:
    first, again, other = (train_and_evaluate(QUICK, method, seed) for seed in (3, 3, 4))
    assert first.calibration.to_json() == again.calibration.to_json()
    assert first.calibration.to_json() != other.calibration.to_json()
    assert first.calibration.compute().count == 899


def test_training_learns_and_validation_is_another_split() -> None:
    run = train_and_evaluate(replace(QUICK, epochs=60), "VWCI", 0, evaluate_on="validation")
    result = run.calibration.compute()
    assert result.count == 868
    assert result.accuracy > 0.6


def test_evaluation_is_one_quiet_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []

    class Spy(SmallCNN):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            modes.append(self.training)
            return super().forward(images)

    monkeypatch.setattr(quickstart, "SmallCNN", Spy)
    train_and_evaluate(QUICK, "VWCI", 0)
    assert modes.count(False) == 1  # the sampler may trace the model, in training mode
    assert modes[-1] is False


def test_methods_are_what_their_names_say() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(5, 6, 10, generator=generator), torch.randint(0, 10, (6,), generator=generator)
    expected = {
        "cross-entropy": ss.cross_entropy_loss(logits, labels),
        "cross-entropy, T = 5": ss.cross_entropy_loss(logits, labels),
        "label smoothing 0.1": ss.label_smoothing_loss(logits, labels, label_smoothing=0.1),
        "CI 0.1": ss.ci_loss(logits, labels, beta=0.1),
        "VWCI": ss.vwci_loss(logits, labels),
        "VWCI total variation": ss.vwci_loss(logits, labels, measure="total_variation"),
    }
    assert {name: float(method.loss(logits, labels)) for name, method in METHODS.items()} == {
        name: float(value) for name, value in expected.items()
    }
    assert [name for name, method in METHODS.items() if method.several_passes] == [
        "cross-entropy, T = 5",
        "VWCI",
        "VWCI total variation",
    ]


def test_the_setting_is_the_one_chosen_on_validation() -> None:
    chosen = json.loads((Path(__file__).parents[2] / "results" / "quickstart_setting.json").read_text())["chosen"]
    assert {name: chosen[name] for name in vars(Setting())} == vars(Setting())


def test_finished_runs_are_kept_and_never_done_twice(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    store = RunStore.open(path, QUICK)
    kept = [fake_run(method, 0) for method in list(METHODS)[:-1]]
    for run in kept:
        store.add(run)
    reopened = RunStore.open(path, QUICK)
    assert reopened.missing(seeds=1) == [(list(METHODS)[-1], 0)]
    finished: list[Run] = []
    run_grid(reopened, seeds=1, jobs=2, on_finished=finished.append, predictions=tmp_path / "predictions")
    assert len(list((tmp_path / "predictions" / "seed-0").iterdir())) == 1
    assert [(run.method, run.seed) for run in finished] == [(list(METHODS)[-1], 0)]
    final = RunStore.open(path, QUICK)
    stored = json.loads(path.read_text())["runs"]
    assert all(0 <= run["metrics"]["ece"] <= 1 and run["environment"]["torch"] for run in stored)
    assert not final.missing(seeds=1)
    assert final.runs[kept[0].method, 0].calibration.to_json() == kept[0].calibration.to_json()


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, "{", "[]", '{"format": "other"}', '{"format": "singleshot.quickstart"}']
)
def test_a_file_that_cannot_be_continued_is_named_and_kept(content: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"results\.json holds no quickstart results.*--restart"):
        RunStore.open(path, QUICK)
    assert path.read_text() == content


def test_runs_of_another_setting_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    RunStore.open(path, QUICK).add(fake_run("VWCI", 0))
    with pytest.raises(ValueError, match="another setting"):
        RunStore.open(path, Setting())
    assert len(json.loads(path.read_text())["runs"]) == 1


def test_summary_is_the_mean_with_its_standard_error_over_seeds() -> None:
    runs = [fake_run("VWCI", seed) for seed in range(4)]  # accuracies 1, 0.75, 1, 0.75
    summary = summarize("VWCI", runs)
    accuracy = summary.metrics["accuracy"]
    assert (accuracy.mean, accuracy.seeds) == (0.875, 4)
    assert accuracy.standard_error == pytest.approx((4 * 0.125**2 / 3) ** 0.5 / 2)
    assert summary.pooled.count == 16
    assert summary.pooled.accuracy == 0.875
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["metrics"]["accuracy"]["seeds"] == 4
    assert Estimate.of([1.0]).standard_error is None
    assert str(Estimate.of([1.0])) == "1.000"


def test_table_marks_the_best_of_each_column() -> None:
    sure, unsure = (summarize(name, [fake_run(name, 0, c)]) for name, c in (("sure", 0.95), ("unsure", 0.6)))
    lines = markdown_table([sure, unsure]).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| sure | **1.000** | **0.050** |")
    assert "**0.400**" not in lines[3]


def test_the_small_net_has_its_noise_in_the_classifier() -> None:
    model = SmallCNN(10, dropout=0.5)
    assert not any(isinstance(layer, nn.Dropout) for layer in model.features)
    images = torch.randn(3, 1, 8, 8)
    assert model(images).shape == (3, 10)
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))
    with pytest.raises(ValueError, match="image_size must be even"):
        SmallCNN(10, image_size=7)
