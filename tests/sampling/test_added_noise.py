"""add_noise makes the passes of any model differ, changes nothing in evaluation mode, and is undone exactly."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loop import both
from torch import Tensor, nn

import singleshot as ss
from singleshot.sampling import noise_layers
from singleshot.sampling.added_noise import NAME


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layer1 = nn.Sequential(Residual(4), Residual(4))
        self.layer2 = nn.Sequential(Residual(4), Residual(4))
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """The last linear layer in order of definition is inside an attention; blocks are called by name."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 5)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.pool = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(src=x)
        x, _ = self.pool(x, x, x, need_weights=False)
        return self.head(x.mean(1))  # type: ignore[no-any-return]


def mlp() -> nn.Module:
    parts = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*parts, nn.Linear(6, 5))


Case = tuple[Callable[[], nn.Module], tuple[int, ...], Any, tuple[str, ...]]
CASES: list[Case] = [
    (mlp, (7, 6), "head", ("3",)),
    (mlp, (7, 6), "blocks", ("0", "1", "2")),
    (mlp, (7, 6), ["1.0", "3"], ("1.0", "3")),
    (ResNet, (7, 3, 6, 6), "head", ("fc",)),
    (ResNet, (7, 3, 6, 6), "blocks", ("layer1.0", "layer1.1", "layer2.0", "layer2.1")),
    (Encoder, (7, 3, 8), "head", ("blocks.1.linear2",)),
    (Encoder, (7, 3, 8), ["head"], ("head",)),
    (Encoder, (7, 3, 8), "blocks", ("blocks.0", "blocks.1")),
]


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything that a model holds, except for the tensors, which are compared by identity."""
    return {
        name: {key: dict(value) if isinstance(value, dict) else value for key, value in vars(part).items()}
        for name, part in model.named_modules()
    }


@pytest.mark.parametrize(("make", "shape", "where", "layers"), CASES)
def test_evaluation_is_unchanged_and_the_noise_is_undone_exactly(
    make: Callable[[], nn.Module], shape: tuple[int, ...], where: Any, layers: tuple[str, ...]
) -> None:
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    expected, keys, before = model(x), list(model.state_dict()), state_of(model)
    added = ss.add_noise(model, p=0.3, where=where)
    assert added.layers == layers
    assert list(model.state_dict()) == keys
    assert torch.equal(model(x), expected)
    assert len(noise_layers(model)) >= len(layers)
    with torch.no_grad():  # where a transformer layer would take its fused path
        torch.testing.assert_close(model(x), expected)
    passes = ss.sample(model, x, samples=3)
    assert not torch.equal(passes[0], passes[1])
    model.load_state_dict(make().state_dict())
    removed = ss.remove_noise(model)
    assert len(removed) == len(layers)
    assert state_of(model) == before
    assert not noise_layers(model)
    assert ss.remove_noise(model) == ()


@pytest.mark.parametrize(("make", "shape", "where", "layers"), CASES)
@pytest.mark.parametrize("training", [True, False])
def test_sampling_equals_a_loop(
    make: Callable[[], nn.Module], shape: tuple[int, ...], where: Any, layers: tuple[str, ...], training: bool
) -> None:
    torch.manual_seed(0)
    model, x = make().train(training), torch.randn(shape)
    ss.add_noise(model, where=where)
    (expected, expected_gradients), (found, gradients) = both(model, x)
    assert torch.equal(expected, found)
    for one, other in zip(expected_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_only_the_layers_after_the_noise_are_repeated() -> None:
    model = ResNet()
    ss.add_noise(model)
    explanation = ss.explain(model, torch.randn(2, 3, 6, 6))
    assert explanation.shared_work > 0.95
    assert explanation.noise == (f"fc.{NAME}",)


def test_copies_pickles_and_compiled_models_keep_the_noise(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = mlp(), torch.randn(4, 6)
    ss.add_noise(model, p=0.5)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(buffer, weights_only=False)]
    expected = ss.sample(model, x, seed=1)
    for one in copies:
        assert torch.equal(ss.sample(one, x, seed=1), expected)
        assert ss.remove_noise(one) == ("3",)
        assert ss.add_noise(one).layers == ("3",)
    compiled: Any = torch.compile(model, backend="eager")
    assert not torch.equal(compiled(x), compiled(x))
    torch.testing.assert_close(compiled.eval()(x), copies[0].eval()(x))
    done = ss.export_model(model, tmp_path / "a.pt2", example=x, format="torch-export")
    assert done.largest_difference < 1e-6


def test_the_description() -> None:
    assert str(ss.add_noise(mlp(), p=0.25)) == "Dropout with p = 0.25 before layer '3'"
    assert str(ss.add_noise(mlp(), where="blocks")) == "Dropout with p = 0.2 before 3 layers '0', '1', '2'"


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (mlp(), {"p": 0}, r"p must lie in \(0, 1\)"),
        (mlp(), {"p": 1.0}, r"p must lie in \(0, 1\)"),
        (mlp(), {"where": "tail"}, "where must be 'head', 'blocks' or a list of layer names, got 'tail'"),
        (mlp(), {"where": ["0.o"]}, "unknown layer '0.o'; did you mean "),
        (mlp(), {"where": []}, "at least one layer"),
        (nn.Sequential(nn.Conv2d(1, 1, 1)), {}, "Sequential has no linear layer"),
        (nn.Sequential(nn.Linear(1, 1)), {"where": "blocks"}, "no repeated blocks were found in Sequential"),
        (Encoder(), {"where": ["blocks"]}, "ModuleList, which is never called"),
        (torch.compile(nn.Linear(2, 2), backend="eager"), {}, "add it before compiling"),
        (nn.TransformerEncoderLayer(4, 2), {"where": ["self_attn.out_proj"]}, "'self_attn.out_proj', which is never"),
    ],
)
def test_errors(model: nn.Module, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.add_noise(model, **options)
    assert not any(part._forward_pre_hooks for part in model.modules())


@pytest.mark.parametrize("where", [2, [2]])
def test_layers_are_named_by_strings(where: Any) -> None:
    with pytest.raises(TypeError, match=r"where must be 'head', 'blocks' or a list of layer names, got \[?2"):
        ss.add_noise(mlp(), where=where)


def test_noise_is_not_added_twice_nor_to_integers() -> None:
    model = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 2))
    ss.add_noise(model)
    with pytest.raises(ValueError, match="layer '1' has added noise already"):
        ss.add_noise(model)
    ss.add_noise(model, where=["0"])
    with pytest.raises(TypeError, match="before this Embedding, which has no floating-point input"):
        model(torch.tensor([1]))
