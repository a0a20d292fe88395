"""All strategies do what a plain loop over passes does, with the same masks to the last digits."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import pytest
import torch
from injection import injected_masks
from torch import Tensor, nn
from zoo import EVERYTHING, FOREIGN, SequenceFirstLSTM, build

import singleshot as ss
from singleshot.models import StochasticDepthBlock
from singleshot.sampling.sharing_plan import plan_for

PASSES, ROWS = 3, 4


def outputs_and_gradients(model: nn.Module, x: Tensor, strategy: str) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "passes share no work")
        ss.sample(model, x, strategy=strategy if strategy != "plain" else "loop")
    with injected_masks(model, PASSES, ROWS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "passes share no work")
        if strategy == "plain":
            with nullcontext() if model.training else ss.stochastic(model):
                logits = torch.stack([model(x) for _ in range(PASSES)])
        else:
            logits = ss.sample(model, x, samples=PASSES, strategy=strategy)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (logits * weights).sum().backward()  # type: ignore[no-untyped-call]
    return logits.detach(), [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("training", [True, False])
def test_strategies_agree_with_the_plain_loop(name: str, training: bool) -> None:
    """In double precision, where rounding hides nothing: gradients that cancel out are noise in single precision."""
    model, x = build(name, ROWS)
    model, x = model.double(), x.double() if x.is_floating_point() else x
    if not training:
        with torch.no_grad():
            for _ in range(3):
                model(x)  # gives batch norm something to have recorded
        model.eval()
    expected, expected_gradients = outputs_and_gradients(model, x, "plain")
    assert not torch.allclose(expected[0], expected[1])  # otherwise the masks do not show
    strategies = ["loop", "repeat", "auto"] + (["shared"] if name != "data_dependent" else [])
    for strategy in strategies:
        logits, gradients = outputs_and_gradients(model, x, strategy)
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
        for gradient, wanted in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EVERYTHING if name not in ("data_dependent", "functional")])
@pytest.mark.parametrize("training", [True, False])
def test_without_noise_all_passes_equal_the_model(name: str, training: bool) -> None:
    """With rates of nearly 0 every mask is 1, and what is left is the machinery."""
    model, x = build(name, ROWS)
    for layer in model.modules():
        for attribute in ("p", "drop_prob", "dropout"):
            if isinstance(getattr(layer, attribute, None), float):
                setattr(layer, attribute, 1e-12)
        if isinstance(layer, StochasticDepthBlock):
            layer.survival = 1 - 1e-12
    model.train(training)
    expected = model(x)
    for strategy in ("shared", "repeat", "loop"):
        for logits in ss.sample(model, x, samples=PASSES, strategy=strategy):
            torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [7, 4])
def test_a_batch_in_the_second_dimension_is_found(rows: int) -> None:
    """With as many rows as steps a wrong guess would not even raise."""
    model, x = SequenceFirstLSTM(), torch.randn(rows, 7, 6)
    plan = plan_for(model, x)
    assert plan.batch_dims is not None
    assert 1 in plan.batch_dims.values()
    model.lstm.dropout = 1e-12
    torch.testing.assert_close(ss.sample(model, x, samples=2), model(x).expand(2, rows, 5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_noise_before_layers_that_know_no_other_rows_runs_as_one_batch(training: bool) -> None:
    """Which models take the fast way is part of what they cost: a check that is too strict would go unseen."""
    folds = {
        name: ss.explain(*_in_mode(name, training)).as_one_batch for name in EVERYTHING if name != "data_dependent"
    }
    row_by_row = {"mlp", "plain_skip_cnn", "transformer", "attention", "lstm", "functional", "vgg16"}
    behind_batch_norm = {"skip_cnn", "wide_resnet16_8", "densenet40_12"}
    expected = row_by_row | {"drop_path", "row_depth"} | (set() if training else behind_batch_norm)
    assert {name for name, folded in folds.items() if folded} == expected


def _in_mode(name: str, training: bool) -> tuple[nn.Module, Tensor]:
    model, x = build(name)
    return model.train(training), x


def test_what_cannot_be_traced_falls_back_and_says_so_once() -> None:
    model, x = build("data_dependent")
    with pytest.warns(UserWarning, match="passes share no work: torch.fx cannot trace it"):
        logits = ss.sample(model, x, samples=PASSES)
    assert logits.shape == (PASSES, ROWS, 5)
    ss.sample(model, x, samples=PASSES)  # a second warning would be an error here
    with pytest.raises(ValueError, match=r"strategy='shared' is not possible.*cannot trace"):
        ss.sample(model, x, strategy="shared")


@pytest.mark.parametrize("name", [name for name in FOREIGN if name != "data_dependent"])
def test_the_graph_follows_the_model_as_it_changes(name: str) -> None:
    """Plans are kept between calls: new weights, another mode, other rows and another rate must all be seen."""
    model, x = build(name)
    ss.sample(model, x, samples=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    for training, rows in ((True, ROWS), (False, ROWS), (True, 2)):
        model.train(training)
        x = x[:rows]
        with injected_masks(model, 2, rows), nullcontext() if training else ss.stochastic(model):
            expected = torch.stack([model(x) for _ in range(2)])
        ss.sample(model, x, samples=2)
        with injected_masks(model, 2, rows):
            torch.testing.assert_close(ss.sample(model, x, samples=2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "resnet18", "wide_resnet16_8"])
def test_hooks_are_not_passed_over(name: str) -> None:
    model, x = build(name)
    inner = next(module for module in model.children() if list(module.children()))
    seen: list[int] = []
    handle = inner.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    with pytest.warns(UserWarning, match="has hooks"):
        ss.sample(model, x, samples=2)
    assert len(seen) == 2
    handle.remove()
    leaf = next(module for module in model.modules() if isinstance(module, nn.Linear))
    leaf.register_forward_hook(lambda module, args, output: seen.append(0))
    ss.sample(model, x, samples=2)  # within reach of the graph: no warning
    assert 0 in seen


@pytest.mark.parametrize("training", [True, False])
def test_noise_in_the_models_own_code_is_not_shared(training: bool) -> None:
    class Gaussian(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(12, 5)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(x + torch.randn_like(x))
            return logits

    model = Gaussian().train(training)
    logits = ss.sample(model, torch.randn(3, 12), samples=4)
    for number in range(3):
        assert not torch.allclose(logits[number], logits[number + 1])


@pytest.mark.parametrize("strategy", ["auto", "repeat", "loop"])
@pytest.mark.parametrize("name", ["mlp", "skip_cnn", "resnet18"])
def test_a_seed_gives_the_same_samples_again(strategy: str, name: str) -> None:
    model, x = build(name)
    state = torch.get_rng_state()
    first = ss.sample(model, x, seed=3, strategy=strategy)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(ss.sample(model, x, seed=3, strategy=strategy), first, rtol=0, atol=0)
    assert not torch.equal(ss.sample(model, x, seed=4, strategy=strategy), first)
    ss.sample(model, x, strategy=strategy)
    assert not torch.equal(torch.get_rng_state(), state)  # without a seed it goes on, as training must


def test_attributes_that_steer_the_forward_are_seen() -> None:
    class Switched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.doubled = False
            self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(x)
            return logits * 2 if self.doubled else logits

    model, x = Switched(), torch.randn(3, 4)
    single = ss.sample(model, x, seed=0)
    model.doubled = True
    torch.testing.assert_close(ss.sample(model, x, seed=0), 2 * single)


class InPlace(nn.Module):
    """Writes noise into a value that others share, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.stem, self.head = nn.Linear(12, 8), nn.Linear(8, 5)
        self.drop = nn.Dropout(0.5, inplace=way.startswith("dropout"))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.stem(x)
        if self.way == "dropout":
            joined = self.relu(self.drop(shared))
        elif self.way == "dropout, seen again":
            noisy = self.drop(shared)
            joined = noisy + shared
        elif self.way == "add_":
            joined = shared.add_(self.drop(x[:, :8]))
        else:
            joined = self.relu(self.drop(x[:, :8]) + shared) + shared
        logits: Tensor = self.head(joined)
        return logits


@pytest.mark.filterwarnings("ignore:passes share no work")
@pytest.mark.parametrize("way", ["dropout", "dropout, seen again", "add_", "relu behind the noise"])
@pytest.mark.parametrize("folds", [True, False])
def test_writing_in_place_does_not_reach_other_passes(way: str, folds: bool) -> None:
    model, x = InPlace(way), torch.randn(ROWS, 12)
    if not folds:
        model.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 5))  # type: ignore[assignment]
    with torch.no_grad():
        expected, _ = (values.clone() for values in (_plain(model, x), x))
        for strategy in ("auto", "repeat", "loop"):
            ss.sample(model, x, strategy=strategy)
            with injected_masks(model, PASSES, ROWS):
                torch.testing.assert_close(ss.sample(model, x, samples=PASSES, strategy=strategy), expected)


def _plain(model: nn.Module, x: Tensor) -> Tensor:
    with injected_masks(model, PASSES, ROWS):
        return torch.stack([model(x) for _ in range(PASSES)])


def test_noise_that_is_not_recognised_is_noticed() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.drop = nn.Linear(6, 5), nn.Dropout(0.1)

        def forward(self, x: Tensor) -> Tensor:
            rate = 0.4 if self.training else 0.0
            attended = nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=rate)
            logits: Tensor = self.head(self.drop(attended.mean(1)))
            return logits

    class Unheard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            noise = torch.poisson(torch.ones_like(x))
            logits: Tensor = nn.functional.dropout(self.head(x * noise), 0.1, self.training)
            return logits

    assert ss.explain(Attention(), torch.randn(2, 7, 6)).starts_at == "scaled_dot_product_attention"
    assert "draws random numbers" in str(ss.explain(Unheard(), torch.randn(2, 4)).obstacle)
