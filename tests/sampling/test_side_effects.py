"""Sampling leaves a model as it was, whatever happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from live_memory import peak_bytes
from torch import Tensor, nn
from zoo import EVERYTHING, build

import singleshot as ss
from singleshot.models import create_model


def fingerprint(model: nn.Module) -> dict[str, object]:
    tensors = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in vars(m)) for m in model.modules()]
    return {"tensors": tensors, "modes": modes, "hooks": hooks}


def assert_unchanged(model: nn.Module, before: dict[str, object]) -> None:
    after = fingerprint(model)
    assert after["modes"] == before["modes"]
    assert after["hooks"] == before["hooks"]
    for name, value in after["tensors"].items():  # type: ignore[attr-defined]
        assert torch.equal(value, before["tensors"][name]), name  # type: ignore[index]


@pytest.mark.filterwarnings("ignore:passes share no work")
@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("options", [{}, {"strategy": "repeat"}, {"strategy": "loop"}, {"memory": "low"}], ids=str)
def test_monte_carlo_inference_changes_nothing(name: str, options: dict[str, str]) -> None:
    model, x = build(name)
    model(x)
    model.eval()
    before = fingerprint(model)
    logits = ss.sample(model, x, samples=3, **options)  # type: ignore[arg-type]
    assert not torch.allclose(logits[0], logits[1])
    logits.sum().backward()  # type: ignore[no-untyped-call]
    assert_unchanged(model, before)


@pytest.mark.parametrize("name", ["skip_cnn", "resnet18", "wide_resnet16_8", "vgg16"])
def test_making_a_plan_leaves_batch_norm_alone(name: str) -> None:
    """In training a step records the statistics of its passes, and nothing else does."""
    model, x = build(name)
    ss.explain(model, x)
    counts = {name: int(value) for name, value in model.state_dict().items() if name.endswith("num_batches_tracked")}
    assert set(counts.values()) == {0}
    ss.sample(model, x, samples=3)
    after = [int(value) for name, value in model.state_dict().items() if name.endswith("num_batches_tracked")]
    assert max(after) <= 3
    assert after[0] == 1  # the stem is the same in every pass: it records once


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.head = nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)
        self.fail = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.norm(x))
        if self.fail:
            raise ArithmeticError("deep inside")
        logits: Tensor = self.head(x)
        return logits


class FailingHead(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        raise ArithmeticError("deep inside")


@pytest.mark.filterwarnings("ignore:passes share no work")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", [{}, {"strategy": "repeat"}, {"strategy": "loop"}, {"memory": "low"}], ids=str)
def test_an_exception_inside_the_model_restores_everything(training: bool, options: dict[str, str]) -> None:
    torch.manual_seed(0)
    in_its_forward, in_a_layer = Failing(), Failing()
    in_its_forward.fail = True
    in_a_layer.head = FailingHead(4, 2)
    for model in (in_its_forward, in_a_layer):
        model.train(training)
        before, state = fingerprint(model), torch.get_rng_state()
        for seed in (None, 3):
            with pytest.raises(ArithmeticError, match="deep inside"):
                ss.sample(model, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), seed=seed, **options)  # type: ignore[arg-type]
            after = fingerprint(model)
            assert after["modes"] == before["modes"]
            assert after["hooks"] == before["hooks"]
            assert torch.equal(torch.get_rng_state(), state)


def test_stochastic_switches_noise_and_nothing_else() -> None:
    model, x = build("wide_resnet16_8")
    model.eval()
    before = fingerprint(model)
    with ss.stochastic(model):
        on = {type(module).__name__ for module in model.modules() if module.training}
        assert on == {"Dropout"}
        assert not torch.allclose(model(x), model(x))
    assert_unchanged(model, before)
    assert torch.equal(model(x), model(x))


def test_stochastic_reaches_functional_dropout_and_the_transformers_fused_path() -> None:
    for name in ("functional", "transformer", "attention", "lstm", "resnet18"):
        model, x = build(name)
        model.eval()
        with torch.no_grad(), ss.stochastic(model):  # without gradients the encoder layer would take its fused path
            assert not torch.allclose(model(x), model(x)), name
        with torch.no_grad():
            assert torch.equal(model(x), model(x)), name


@pytest.mark.parametrize("name", ["mlp", "skip_cnn", "resnet18", "wide_resnet16_8", "densenet40_12"])
def test_low_memory_has_the_gradients_of_the_plain_way(name: str) -> None:
    results = []
    for options in ({"strategy": "loop"}, {"memory": "low"}):
        model, x = build(name)
        loss = ss.vwci_loss(ss.sample(model, x, samples=3, seed=1, **options), torch.tensor([0, 1, 2, 3]))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [None if p.grad is None else p.grad for p in model.parameters()]
        results.append((loss.detach(), gradients, model.state_dict()))
    (loss, gradients, state), (low_loss, low_gradients, low_state) = results
    assert torch.equal(loss, low_loss)
    for gradient, low in zip(gradients, low_gradients, strict=True):
        torch.testing.assert_close(low, gradient, rtol=1e-6, atol=1e-7)
    for key, value in state.items():
        assert torch.equal(value, low_state[key]), key


@pytest.mark.parametrize("name", ["wide_resnet16_8", "densenet40_12"])
def test_low_memory_keeps_the_activations_of_one_pass(name: str) -> None:
    model, x = build(name, rows=16)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def peak(logits: Callable[[], Tensor]) -> int:
        return peak_bytes(lambda: logits().sum().backward())  # type: ignore[no-untyped-call]

    one = peak(lambda: model(x))
    assert peak(lambda: ss.sample(model, x, samples=5, strategy="loop")) > 4 * one
    assert peak(lambda: ss.sample(model, x, samples=5, memory="low")) <= 1.3 * one


@pytest.mark.parametrize(
    ("model", "x", "options", "message"),
    [
        (nn.Linear(4, 2), torch.randn(3, 4), {}, r"Linear has no noise: .*nn.Dropout\(0.2\)"),
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.0)), torch.randn(3, 4), {}, "its Dropout has rate 0"),
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(1.0)), torch.randn(3, 4), {}, "'1' of Sequential has rate 1"),
        (
            nn.Sequential(nn.Dropout(0.5)),
            torch.randn(3, 4),
            {"samples": 0},
            "samples must be a whole number of at least 1, got 0",
        ),
        (nn.Sequential(nn.Dropout(0.5)), torch.randn(3, 4), {"strategy": "fast"}, "choose one of auto, shared"),
        (nn.Sequential(nn.Dropout(0.5)), torch.randn(3, 4), {"memory": "none"}, "memory='none' is unknown"),
        (nn.Sequential(nn.Dropout(0.5)), torch.randn(3, 4), {"memory": "low", "strategy": "shared"}, "memory='low'"),
        (nn.Sequential(nn.Dropout(0.5)), torch.randn(0, 4), {}, "at least one row"),
        (nn.Sequential(nn.Dropout(0.5)), [1.0], {}, "x must be one tensor"),
        (nn.Sequential(nn.Dropout(0.5)), torch.randn(3, 4, 5), {}, r"logits of shape \(3, C\); it returns shape"),
        (nn.Sequential(nn.Dropout(0.5), nn.Flatten(0)), torch.randn(3, 4), {}, r"\(3, C\); it returns shape"),
        (nn.Sequential(nn.Linear(4, 2, device="meta"), nn.Dropout(0.5)), torch.randn(3, 4), {}, "x is on cpu and"),
        (nn.LSTM(4, 2, num_layers=2, dropout=0.5), torch.randn(3, 4, 4), {}, "it returns a tuple"),
    ],
)
@pytest.mark.filterwarnings("ignore:passes share no work")
@pytest.mark.parametrize("strategy", ["auto", "repeat", "loop"])
def test_bad_input_is_named(
    model: nn.Module, x: Tensor, options: dict[str, object], message: str, strategy: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ss.sample(model, x, **{"strategy": strategy, **options})  # type: ignore[arg-type]


def test_a_model_without_noise_cannot_be_made_stochastic() -> None:
    with pytest.raises(ValueError, match="has no noise"), ss.stochastic(nn.Linear(3, 2)):
        pass
    silent = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
    silent[0].eval()
    with pytest.raises(ValueError, match="are in evaluation mode"):
        ss.sample(silent, torch.randn(2, 3))


def test_explain_says_where_the_noise_starts_and_what_is_shared() -> None:
    model, x = create_model("vgg16", num_classes=5, width=0.125), torch.randn(2, 3, 32, 32)
    found = ss.explain(model, x)
    assert (found.strategy, found.as_one_batch, found.starts_at) == ("shared", True, "classifier.0")
    assert ss.explain(model.eval(), x).as_one_batch
    assert found.shared_work > 0.98
    head = sum(parameter.numel() for parameter in model.get_submodule("classifier").parameters())
    everything = sum(parameter.numel() for parameter in model.parameters())
    assert found.shared_parameters == pytest.approx(1 - head / everything)
    assert "the passes part at: classifier.0" in str(found)
    untraceable, x = build("data_dependent")
    assert "cannot trace" in str(ss.explain(untraceable, x))
    resnet, x = build("resnet18")
    assert ss.explain(resnet, x).noise[0] == "blocks.0"
