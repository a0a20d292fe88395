"""The strength of a loss that tunes itself, against plain numpy, on simulated networks, and in two processes."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_digits
from torch import Tensor, nn

import singleshot as ss
from oracle import softmax
from singleshot.self_tuning import _RANGES, CHANCE, _score


def examples(count: int = 500, classes: int = 4, sharpness: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits of a network that is calibrated at sharpness 1, overconfident above and underconfident below."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, dtype=torch.float64, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * sharpness, labels


def best_temperature(logits: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """The root of the NLL's slope in log τ, by bisection."""

    def slope(log_temperature: float) -> float:
        scaled = logits / math.exp(log_temperature)
        expected = (softmax(scaled) * scaled).sum(1)
        return float((scaled[np.arange(len(labels)), labels] - expected).mean())

    low, high = -5.0, 5.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return math.exp(low)


@pytest.mark.parametrize("loss", _RANGES)
@pytest.mark.parametrize("sharpness", [0.6, 1.3])
def test_an_update_equals_the_formula(loss: str, sharpness: float) -> None:
    logits, labels = examples(sharpness=sharpness)
    strength = ss.SelfTunedStrength(loss, gain=0.5)
    before = float(strength)
    temperature = strength.update(logits=logits, labels=labels)

    array, index = logits.numpy(), labels.numpy()
    assert temperature == pytest.approx(best_temperature(array, index), rel=1e-9)
    expected = (softmax(array) * array).sum(1)
    variances = (softmax(array) * (array - expected[:, None]) ** 2).sum(1)
    score = (array[np.arange(len(index)), index] - expected).sum() / math.sqrt(variances.sum())
    assert strength.score == pytest.approx(score, rel=1e-9)
    move = 0.5 * (1 - 1 / score**2) * math.log(temperature)
    if loss == "label_smoothing":
        odds = before / (1 - before) * math.exp(move)
        assert float(strength) == pytest.approx(odds / (1 + odds), rel=1e-9)
    else:
        assert float(strength) == pytest.approx(before * math.exp(move), rel=1e-9)
    assert (float(strength) > before) == (sharpness > 1)
    assert not strength.is_calibrated


@pytest.mark.parametrize(("count", "classes", "scale"), [(5, 10, 3.0), (20, 2, 8.0), (30, 10, 15.0), (200, 100, 3.0)])
def test_the_score_rejects_calibrated_networks_at_its_level(count: int, classes: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    rejected = 0
    for _ in range(400):
        logits = scale * torch.randn(count, classes, generator=generator)
        labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
        rejected += abs(_score(logits, labels)) > CHANCE
    assert rejected <= 34  # 20 expected; binomial, 99.9 % quantile


def test_a_calibrated_network_hardly_moves_the_strength() -> None:
    calibrated, moves = 0, []
    for seed in range(40):
        strength = ss.SelfTunedStrength("vwci")
        strength.update(logits=examples(seed=seed)[0], labels=examples(seed=seed)[1])
        calibrated += strength.is_calibrated
        moves.append(abs(math.log(float(strength))))
    assert calibrated >= 34  # 38 expected
    assert sum(move == 0 for move in moves) >= 20  # a score below 1 in absolute value: 27 expected
    assert max(moves) < 0.2


@pytest.mark.parametrize("start", [3.0, 0.3])
def test_a_responding_network_ends_calibrated(start: float) -> None:
    """A network whose sharpness follows the strength slowly, as training does."""
    logits, labels = examples(2000)
    strength, sharpness = ss.SelfTunedStrength("label_smoothing"), start
    for _ in range(60):
        strength.update(logits=logits * sharpness, labels=labels)
        odds = float(strength) / (1 - float(strength))
        wanted = start * (odds / (0.05 / 0.95)) ** -0.6
        sharpness *= (wanted / sharpness) ** 0.3
    assert strength.is_calibrated
    assert strength.temperature == pytest.approx(1, abs=0.06)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 5000),
    classes=st.sampled_from([2, 3, 10, 100, 1000]),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e6]),
    loss=st.sampled_from(tuple(_RANGES)),
    seed=st.integers(0, 100),
)
def test_any_network_keeps_the_strength_in_its_range(
    count: int, classes: int, scale: float, loss: str, seed: int
) -> None:
    """Random logits of every size, without any information about the labels."""
    count = min(count, 200_000 // classes)
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(count, classes, generator=generator)
    labels = torch.randint(0, classes, (count,), generator=generator)
    labels[:2] = torch.tensor([0, 1])
    strength = ss.SelfTunedStrength(loss)
    first, least, largest = _RANGES[loss]
    for number in range(4):
        before = strength.state_dict()["log_strength"]
        strength.update(logits=logits, labels=labels)
        now = strength.state_dict()["log_strength"]
        assert math.log(least) - 1e-9 <= now <= math.log(largest) + 1e-9
        assert abs(now - before) <= 1 + 1e-9
        assert number or (scale > 0 or now == math.log(first))  # logits that are all equal say nothing
    order = torch.randperm(count, generator=generator)
    other = ss.SelfTunedStrength(loss)
    for _ in range(4):
        other.update(logits=logits[order], labels=labels[order])
    assert float(other) == pytest.approx(float(strength), rel=1e-6)


def test_extreme_networks_move_the_strength_by_one_factor_of_e() -> None:
    labels = torch.arange(3000) % 3
    right = 4 * nn.functional.one_hot(labels, 3).double()
    right += 0.01 * torch.randn(3000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weaker, stronger = ss.SelfTunedStrength("vwci"), ss.SelfTunedStrength("vwci")
    weaker.update(logits=right, labels=labels)  # all correct: no temperature is low enough
    stronger.update(logits=right, labels=(labels + 1) % 3)  # all wrong: none is high enough
    assert float(weaker) == pytest.approx(math.exp(-1), rel=2e-2)
    assert float(stronger) == pytest.approx(math.e, rel=1e-3)


@pytest.mark.parametrize("loss", ["vwci", "label_smoothing"])
@pytest.mark.parametrize("start", ["overconfident", "underconfident"])
def test_training_on_digits_ends_calibrated(loss: str, start: str) -> None:
    """A network that has memorised its images, or was trained with too strong a pull, is calibrated in 40 epochs."""
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    images += 0.4 * torch.randn(images.shape)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    strength = ss.SelfTunedStrength(loss)

    def temperature(tuned: ss.SelfTunedStrength, part: slice) -> float:
        model.eval()
        with torch.no_grad():
            return tuned.update(logits=model(images[part]), labels=labels[part])

    def train(epochs: int, loss_of: Callable[[Tensor, Tensor], Tensor], *, tune: bool) -> None:
        for _ in range(epochs):
            model.train()
            for batch in torch.split(torch.randperm(600), 50):
                optimizer.zero_grad()
                loss_of(images[batch], labels[batch]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if tune:
                temperature(strength, slice(600, 900))

    def tuned_loss(x: Tensor, y: Tensor) -> Tensor:
        if loss == "vwci":
            return ss.vwci_loss(ss.sample(model, x, gradient_passes=1), y, strength=strength)
        return ss.label_smoothing_loss(model(x), y, label_smoothing=strength)

    smoothing = 0.0 if start == "overconfident" else 0.6
    train(30, lambda x, y: ss.label_smoothing_loss(model(x), y, label_smoothing=smoothing), tune=False)
    before = ss.SelfTunedStrength(loss)
    found = temperature(before, slice(600, 900))
    assert found > 1.4 if start == "overconfident" else found < 0.7
    assert not before.is_calibrated

    train(40, tuned_loss, tune=True)
    assert strength.is_calibrated
    assert temperature(ss.SelfTunedStrength(loss), slice(900, None)) == pytest.approx(1, abs=0.15)


def test_invalid_examples_raise_and_change_nothing() -> None:
    logits, labels = examples(20)
    strength = ss.SelfTunedStrength("ci")
    strength.update(logits=3 * logits, labels=labels)
    before = strength.state_dict()
    nan = logits.clone()
    nan[3, 1] = math.nan
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (logits[:0], labels[:0], ValueError, "at least one example"),
        (logits, torch.zeros_like(labels), ValueError, "the same class, 0; hold out examples of at least two classes"),
        (nan, labels, ValueError, "finite"),
        (logits, labels + 4, ValueError, r"labels must lie in \[0, 4\)"),
        (logits, labels.double(), TypeError, "integer"),
        (logits[None], labels, ValueError, r"\(N, C\)"),
        ([["a"]], labels, ValueError, "logits cannot be converted"),
    ]
    for bad_logits, bad_labels, error, message in cases:
        with pytest.raises(error, match=message):
            strength.update(logits=bad_logits, labels=bad_labels)
        assert strength.state_dict() == before
    for arguments in ({"loss": "hinge"}, {"loss": "vwci", "gain": 0.0}, {"loss": "entropy_ci"}):
        with pytest.raises(ValueError, match=r"unknown|gain"):
            ss.SelfTunedStrength(**arguments)


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_logits_without_differences_between_classes_say_nothing(classes: int) -> None:
    for seed in range(20):
        offsets = torch.randn(50, 1, generator=torch.Generator().manual_seed(seed))
        strength = ss.SelfTunedStrength("vwci")
        strength.update(logits=offsets.expand(50, classes), labels=torch.arange(50) % classes)
        assert strength.score == 0
        assert float(strength) == 1


def test_a_state_that_no_strength_has_is_refused() -> None:
    strength = ss.SelfTunedStrength("vwci")
    state = strength.state_dict()
    for change in ({"log_strength": math.nan}, {"log_strength": 50.0}, {"gain": -1.0}, {"gain": None}, {"score": "x"}):
        with pytest.raises(ValueError, match=r"state of a strength|out of range"):
            strength.load_state_dict({**state, **change})
        assert strength.state_dict() == state


def test_a_state_is_restored_exactly() -> None:
    one, other = ss.SelfTunedStrength("focal"), ss.SelfTunedStrength("focal")
    one.update(logits=examples(sharpness=2)[0], labels=examples()[1])
    other.load_state_dict(one.state_dict())
    assert float(other) == float(one)
    assert (other.temperature, other.score) == (one.temperature, one.score)
    assert "focal" in repr(other) and "temperature" in repr(other)  # noqa: PT018
    with pytest.raises(ValueError, match="strength of vwci, the state is that of focal"):
        ss.SelfTunedStrength("vwci").load_state_dict(one.state_dict())


def test_the_losses_follow_the_strength() -> None:
    logits, labels = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
    modules: dict[str, tuple[type[nn.Module], Any, str]] = {
        "vwci": (ss.VWCILoss, ss.vwci_loss, "strength"),
        "label_smoothing": (ss.LabelSmoothingLoss, ss.label_smoothing_loss, "label_smoothing"),
        "ci": (ss.CILoss, ss.ci_loss, "beta"),
        "focal": (ss.FocalLoss, ss.focal_loss, "gamma"),
    }
    for loss, (kind, function, parameter) in modules.items():
        strength = ss.SelfTunedStrength(loss)
        module = kind(**{parameter: strength})
        first = module(logits, labels)
        assert torch.equal(first, function(logits, labels, **{parameter: float(strength)}))
        assert torch.equal(first, function(logits, labels, **{parameter: strength}))
        strength.update(logits=examples(sharpness=3)[0], labels=examples()[1])
        assert torch.equal(module(logits, labels), function(logits, labels, **{parameter: float(strength)}))
        assert not torch.equal(module(logits, labels), first)
        other = ss.SelfTunedStrength("ci" if loss != "ci" else "focal")
        with pytest.raises(ValueError, match=f"must be the strength of {loss}, got that of {other.loss}"):
            function(logits, labels, **{parameter: other})


def test_one_logit_of_a_binary_classifier_is_that_of_two_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(200, 1, generator=generator) * 4
    labels = torch.bernoulli((one[:, 0] / 2).sigmoid(), generator=generator).long()
    for make in (ss.SelfTunedStrength, ss.AdaptiveGamma):
        states = []
        for logits in (one, one[:, 0], torch.cat([torch.zeros_like(one), one], 1)):
            tuned = make()
            tuned.update(logits=logits, labels=labels)
            states.append(tuned.state_dict())
        assert states[0] == states[1] == states[2] != make().state_dict()


def test_two_processes_have_the_strength_of_one(tmp_path: Path) -> None:
    logits, labels = examples(101, sharpness=1.5)
    np.savez(tmp_path / "examples.npz", logits=logits.numpy(), labels=labels.numpy())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    worker = Path(__file__).with_name("self_tuning_worker.py")
    subprocess.run([*launcher, worker, tmp_path], check=True, capture_output=True, timeout=300)
    alone = ss.SelfTunedStrength("vwci")
    alone.update(logits=logits, labels=labels)
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        assert found["state"] == alone.state_dict()
        assert found["kept"]
        for name, message in {
            "NaN": "process 0: .* finite",
            "text": "process 0: logits cannot be converted",
            "three dimensions": r"process 0: .*\(N, C\)",
            "classes": r"same classes in all processes, got \[3, 4\]",
            "rows": "process 0: labels",
        }.items():
            assert re.search(message, found["errors"][name]), found["errors"]
