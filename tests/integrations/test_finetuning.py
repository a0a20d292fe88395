"""Finetuning of a trained model on real digits: what changes, what does not, and what is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import singleshot as ss
from singleshot.integrations.training_loop import Training, adamw

Loader = DataLoader[tuple[Tensor, ...]]


def digits(labelled: int = 200) -> tuple[Loader, Loader]:
    images, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels)
    held_out = TensorDataset(x[1000:], y[1000:])
    return DataLoader(TensorDataset(x[:labelled], y[:labelled]), 50, shuffle=True), DataLoader(held_out, 400)


def trained(loader: Loader, epochs: int = 100) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    Training(model, loader, epochs=epochs, make_optimizer=adamw(3e-3, 0.0), loss=ss.CrossEntropyLoss()).run()
    return model


def test_an_overconfident_model_is_calibrated_in_a_few_epochs(tmp_path: Path) -> None:
    loader, held_out = digits()
    model = trained(loader)
    assert ss.add_noise(model, p=0.5, where="head").layers == ("4",)
    model[0].eval()
    done = ss.finetune(model, loader, held_out=held_out, epochs=20, learning_rate=1e-3, progress=False)
    before, after = done.before.metrics(), done.after.metrics()
    assert before["mean_confidence"] - before["accuracy"] > 0.02
    assert after["ece"] < before["ece"] - 0.01
    assert after["accuracy"] > before["accuracy"] - 0.02
    assert after == ss.evaluate(model, held_out).metrics()
    assert model.training
    assert not model[0].training
    shown = repr(done)
    assert "before" in shown.splitlines()[0]
    assert "after minus before, on the same examples" in shown
    ss.report({"before": done.before, "after": done.after}, tmp_path / "page.html")
    ss.remove_noise(model)
    assert ss.evaluate(model, held_out).metrics() == after


def test_batches_that_are_dicts_and_another_optimizer() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 10))

        def forward(self, *, pixels: Tensor) -> dict[str, Tensor]:
            return {"logits": self.body(pixels)}

    loader, held_out = digits()
    model = Named()
    batches = [{"pixels": x, "labels": y} for x, y in loader]
    rates: list[float] = []

    def recorded_sgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(parameters, lr=0.4)
        optimizer.register_step_pre_hook(lambda one, *_: rates.append(one.param_groups[0]["lr"]))
        return optimizer

    done = ss.finetune(
        model,
        batches,
        held_out=[{"pixels": x, "labels": y} for x, y in held_out],
        epochs=2,
        make_optimizer=recorded_sgd,
        gradient_passes=1,
    )
    assert done.after.metrics()["nll"] < done.before.metrics()["nll"]
    assert rates == pytest.approx([0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05])


def test_pixels_that_the_loss_ignores_are_left_out_of_the_evaluations() -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 1), nn.Dropout(0.5), nn.Conv2d(8, 2, 1))
    images, _ = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images[:20]).float().view(-1, 1, 8, 8) / 16
    labels = (pixels[:, 0] > 0.5).long()
    labels[:, 0] = -100
    done = ss.finetune(model, [(pixels, labels)], held_out=[(pixels, labels)], epochs=1, progress=False)
    assert done.after.result.count == 20 * 7 * 8


def test_errors_leave_the_modes_as_they_were() -> None:
    loader, held_out = digits(60)
    model = nn.Linear(64, 10).eval()
    with pytest.raises(ValueError, match=r"Linear has no noise.*singleshot\.add_noise"):
        ss.finetune(model, loader, held_out=held_out)
    assert not model.training
    with pytest.raises(ValueError, match="the loader has no batches"):
        ss.finetune(model, iter(()), held_out=held_out)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": torch.zeros}, TypeError, "model must be an nn.Module"),
        ({"model": nn.Dropout()}, ValueError, "Dropout has no parameters to train"),
        ({"loader": 5}, TypeError, "loader must be a loader of batches, got int"),
        ({"loader": []}, ValueError, "the loader has no batches"),
        ({"held_out": iter(digits(60)[1])}, TypeError, "held_out is read twice"),
        ({"held_out": None}, TypeError, "held_out must be a loader of batches, got NoneType"),
        ({"epochs": 0}, ValueError, "epochs must be a whole number of at least 1, got 0"),
        ({"learning_rate": -1}, ValueError, "learning_rate must lie in"),
        ({"make_optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)}, TypeError, "make_optimizer must"),
        ({"samples": 1}, ValueError, "samples must be a whole number of at least 2, got 1"),
        ({"gradient_passes": 6}, ValueError, "gradient_passes must be at most samples=5, got 6"),
        ({"measure": "bold"}, ValueError, "measure='bold' is unknown"),
        ({"logits": "scores"}, TypeError, "logits must be a function of the model's output, got str"),
    ],
)
def test_arguments_are_checked_before_the_first_evaluation(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    class Unread:
        def __iter__(self) -> Any:
            raise AssertionError("the model was evaluated")

    model = nn.Sequential(nn.Dropout(), nn.Linear(64, 10))
    given = {"model": model, "loader": digits(60)[0], "held_out": Unread(), **options}
    with pytest.raises(error, match=message):
        ss.finetune(given.pop("model"), given.pop("loader"), **given)
