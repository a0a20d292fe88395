from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import singleshot as ss
from singleshot.grid.engine import run_grid
from singleshot.grid.job import Result
from singleshot.grid.local_engine import LocalEngine
from singleshot.grid.store import ResultStore
from singleshot.models import SmallCNN
from singleshot.paper import quickstart
from singleshot.paper.quickstart import (
    TITLES,
    QuickstartJob,
    Setting,
    import_old_results,
    quickstart_jobs,
    recipe_for,
    summarize,
    table_rows,
)
from singleshot.training.step import loss_and_alpha
from small_grids import Recorder

QUICK = Setting(epochs=2)
STORED = Path(__file__).parents[2] / "results" / "quickstart" / "results"


def fake_result(method: str, seed: int, confidence: float = 0.9) -> Result:
    calibration = ss.Calibration(bins=20)
    probs = torch.tensor([[confidence, 1 - confidence]], dtype=torch.float64)
    calibration.update(probs=probs.repeat(4, 1), labels=torch.tensor([0, 0, 0, seed % 2]))
    data = {"train": 30, "test": 4, "classes": 2}
    return Result(QuickstartJob(method, seed), 1.5, None, "cpu", {"torch": "2"}, data, {"test": calibration})


def store_of(*results: Result) -> ResultStore:
    return ResultStore(Path("unused"), {result.job.key: result for result in results}, job_type=QuickstartJob)


@pytest.mark.parametrize("method", TITLES)
def test_runs_are_reproducible(method: str) -> None:
    first, again, other = (QuickstartJob(method, seed, QUICK).train_and_evaluate() for seed in (3, 3, 4))
    assert first.test.to_dict() == again.test.to_dict()
    assert first.test.to_dict() != other.test.to_dict()
    assert first.test.compute().count == 899


def test_a_run_has_the_stored_numbers() -> None:
    job = QuickstartJob("ci_0.1", 0)
    stored = ResultStore.open(STORED, QuickstartJob)
    assert (len(stored.results), stored.skipped) == (30, [])
    assert job.train_and_evaluate().metrics() == pytest.approx(stored[job].metrics(), abs=1e-3)


def test_training_learns_and_validation_is_another_split() -> None:
    result = QuickstartJob("vwci", 0, replace(QUICK, epochs=60)).train_and_evaluate("validation").test.compute()
    assert result.count == 698
    assert result.accuracy > 0.6


def test_evaluation_is_one_pass_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []

    class Spy(SmallCNN):
        def __init__(self, *sizes: Any, **options: Any) -> None:
            super().__init__(*sizes, **options)
            self.features[0].register_forward_pre_hook(lambda *_: modes.append(self.training))

    monkeypatch.setattr(quickstart, "SmallCNN", Spy)
    QuickstartJob("vwci", 0, QUICK).train_and_evaluate()
    assert modes.count(False) == 1  # the sampler may trace the model in training mode
    assert modes[-1] is False


def test_methods_have_the_losses_of_their_names() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(5, 6, 10, generator=generator), torch.randint(0, 10, (6,), generator=generator)
    expected = {
        "baseline": (1, ss.cross_entropy_loss(logits, labels)),
        "passes": (5, ss.cross_entropy_loss(logits, labels)),
        "smoothing_0.1": (1, ss.label_smoothing_loss(logits, labels, label_smoothing=0.1)),
        "ci_0.1": (1, ss.ci_loss(logits, labels, beta=0.1)),
        "vwci": (5, ss.vwci_loss(logits, labels)),
        "vwci_total_variation": (5, ss.vwci_loss(logits, labels, measure="total_variation")),
    }
    recipes = {method: recipe_for(method, Setting()) for method in TITLES}
    assert {method: (one.passes, loss_and_alpha(logits, labels, one)[0]) for method, one in recipes.items()} == expected


def test_the_setting_is_the_one_selected_on_validation() -> None:
    chosen = json.loads((STORED.parents[1] / "quickstart_setting.json").read_text())["chosen"]
    assert {name: chosen[name] for name in vars(Setting())} == vars(Setting())


def test_finished_runs_are_kept_and_not_repeated(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path / "results", QuickstartJob)
    *kept, last = TITLES
    for method in kept:
        store.add(fake_result(method, 0))
    reopened, recorder = ResultStore.open(tmp_path / "results", QuickstartJob), Recorder()
    assert run_grid(lambda _: quickstart_jobs(1), reopened, LocalEngine(tmp_path / "predictions", 2), recorder) == []
    assert recorder.starts == [QuickstartJob(last, 0).key]
    assert len(list((tmp_path / "predictions" / "seed-0").iterdir())) == 1
    final = ResultStore.open(tmp_path / "results", QuickstartJob)
    assert not final.missing(quickstart_jobs(1))
    assert final[QuickstartJob(kept[0], 0)].to_dict() == fake_result(kept[0], 0).to_dict()


def test_results_of_version_0_1_are_imported(tmp_path: Path) -> None:
    path, results = tmp_path / "results.json", [fake_result(method, 0) for method in ("baseline", "vwci")]
    runs = [
        {
            "method": title,
            "seed": 0,
            "seconds": 1.5,
            "environment": {"torch": "2"},
            "calibration": result.test.to_dict(),
            "metrics": {},
        }
        for title, result in zip(("cross-entropy", "VWCI"), results, strict=True)
    ]
    path.write_text(json.dumps({"format": "singleshot.quickstart", "setting": vars(Setting()), "runs": runs}))
    store = ResultStore.open(tmp_path / "results", QuickstartJob)
    import_old_results(path, store)
    for result in results:
        stored, expected = store[result.job].to_dict(), result.to_dict()
        assert {**stored, "data": None} == {**expected, "data": None}
    for content in ("", "[" * 100_000, "{", "[]", '{"format": "other"}', '{"format": "singleshot.quickstart"}'):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"results\.json holds no quickstart results.*--restart"):
            import_old_results(path, store)
        assert path.read_text() == content


def test_damaged_jobs_are_refused() -> None:
    content = QuickstartJob("vwci", 0).to_dict()
    assert QuickstartJob.from_dict(content) == QuickstartJob("vwci", 0)
    for change in ({"method": "other"}, {"seed": "0"}, {"setting": {"epochs": "many"}}):
        with pytest.raises(ValueError, match=r"method|seed|epochs"):
            QuickstartJob.from_dict({**content, **change})


def test_summaries_have_means_and_standard_errors_over_seeds() -> None:
    results = [fake_result(method, seed) for method in TITLES for seed in range(4)]  # accuracies 1, 0.75, 1, 0.75
    summary = summarize(store_of(*results), seeds=4)[0]
    accuracy = summary.metrics["accuracy"]
    assert (accuracy.mean, accuracy.seeds) == (0.875, 4)
    assert accuracy.standard_error == pytest.approx((4 * 0.125**2 / 3) ** 0.5 / 2)
    assert (summary.pooled.count, summary.pooled.accuracy, summary.metrics["train_seconds"].mean) == (16, 0.875, 1.5)


def test_the_table_marks_the_best_of_each_column() -> None:
    results = [fake_result(method, 0, 0.95 if method == "baseline" else 0.6) for method in TITLES]
    _, first, second, *others = table_rows(summarize(store_of(*results), seeds=1), bold=("<b>", "</b>"))
    assert len(others) == len(TITLES) - 2
    assert first[:3] == ["cross-entropy", "<b>1.000</b>", "<b>0.050</b>"]
    assert second[:3] == ["cross-entropy, T = 5", "<b>1.000</b>", "0.400"]


def test_the_small_net_has_its_noise_in_the_classifier() -> None:
    model = SmallCNN(10, dropout=0.5)
    assert not any(isinstance(layer, nn.Dropout) for layer in model.features)
    images = torch.randn(3, 1, 8, 8)
    assert model(images).shape == (3, 10)
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))
    assert SmallCNN(10, width=0.5)(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\)"):
        SmallCNN(10, dropout=1.0)
