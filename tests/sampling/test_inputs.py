"""Any inputs, and any way to return logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loop import both
from torch import Tensor, nn
from zoo import Bert, build

import singleshot as ss


class Returning(nn.Module):
    """A classifier that returns its logits in some form."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Any:
        logits = self.body(x)
        return {
            "tensor": logits,
            "dict": {"hidden": x, "logits": logits},
            "tuple": (logits.sum(), logits, x),
            "list": [logits, x],
            "own": {"scores": logits},
        }[self.form]


def test_logits_are_found_where_models_put_them() -> None:
    x = torch.randn(2, 4)
    for form in ("tensor", "dict", "tuple", "list"):
        (expected, _), (logits, _) = both(Returning(form), x)
        assert torch.equal(logits, expected), form
    own = Returning("own")
    with pytest.raises(TypeError, match=r"cannot find logits in a dict; say where they are: logits=lambda"):
        ss.sample(own, x)
    assert ss.sample(own, x, logits=lambda output: output["scores"]).shape == (5, 2, 3)


def test_a_tokenizers_batch_goes_in_by_name() -> None:
    torch.manual_seed(0)
    batch = {"input_ids": torch.randint(0, 20, (3, 7)), "attention_mask": torch.ones(3, 7, dtype=torch.long)}
    batch["attention_mask"][:, 5:] = 0
    for rate in (0.0, 0.3):
        for training in (True, False):
            (expected, _), (logits, _) = both(Bert(rate).train(training), **batch)  # type: ignore[arg-type]
            assert torch.equal(logits, expected)
    sequence, x = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), torch.randn(2, 4)
    assert ss.sample(sequence, input=x).shape == (5, 2, 3)
    assert ss.explain(Bert(), **batch).shared_work > 0.9  # type: ignore[arg-type]


def test_dense_logits() -> None:
    model, x = build("segmenter")
    assert ss.sample(model, x, samples=3).shape == (3, 4, 5, 6, 6)


def test_sampled_samples_in_training_mode_only() -> None:
    torch.manual_seed(0)
    model = ss.Sampled(Returning("dict"), samples=4, gradient_passes=1)
    x = torch.randn(2, 4)
    assert model(x).shape == (4, 2, 3)
    assert torch.equal(model.eval()(x), model.model.eval()(x)["logits"])
    assert "samples=4, gradient_passes=1" in repr(model)
    assert set(model.state_dict()) == {f"model.{name}" for name in model.model.state_dict()}
    with pytest.raises(ValueError, match="samples must be"):
        ss.Sampled(model, samples=0)


def test_parts_that_are_compiled_count_as_one_call() -> None:
    torch.manual_seed(0)
    trunk, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 3))
    x = torch.randn(2, 4)
    compiled = nn.Sequential(torch.compile(trunk, backend="eager"), head)  # type: ignore[call-overload]
    torch.manual_seed(1)
    expected = ss.sample(nn.Sequential(trunk, head), x)
    torch.manual_seed(1)
    assert torch.equal(ss.sample(compiled, x), expected)
    whole = torch.compile(nn.Sequential(trunk, head), backend="eager")
    torch.manual_seed(1)
    assert torch.equal(ss.sample(whole, x), expected)  # type: ignore[arg-type]
