"""Sampling leaves a model as it was, whatever happens."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from live_memory import peak_bytes
from loop import loop
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode
from zoo import EVERYTHING, build

import singleshot as ss


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


@pytest.mark.parametrize("name", EVERYTHING)
def test_monte_carlo_inference_changes_nothing(name: str) -> None:
    for memory in ("normal", "low"):
        model, x = build(name)
        model(x)
        model.eval()
        before = fingerprint(model)
        ss.sample(model, x, samples=3, memory=memory).sum().backward()  # type: ignore[no-untyped-call]
        assert_unchanged(model, before)


def test_explain_changes_nothing() -> None:
    for name in ("skip_cnn", "resnet18", "wide_resnet16_8", "efficientnet"):
        model, x = build(name)
        before, state = fingerprint(model), torch.get_rng_state()
        ss.explain(model, x)
        assert_unchanged(model, before)
        assert torch.equal(torch.get_rng_state(), state)


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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("memory", ["normal", "low"])
def test_an_exception_inside_the_model_restores_everything(training: bool, memory: str) -> None:
    torch.manual_seed(0)
    in_its_forward, in_a_layer = Failing(), Failing()
    in_its_forward.fail = True
    in_a_layer.head = FailingHead(4, 2)
    for model in (in_its_forward, in_a_layer):
        model.train(training)
        before, state = fingerprint(model), torch.get_rng_state()
        for seed in (None, 3):
            with pytest.raises(ArithmeticError, match="deep inside"):
                ss.sample(
                    model, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), seed=seed, memory=memory
                )
            after = fingerprint(model)
            assert after["modes"] == before["modes"]
            assert after["hooks"] == before["hooks"]
            assert torch.equal(torch.get_rng_state(), state)


def test_an_error_in_logits_restores_everything() -> None:
    for training in (True, False):
        model, x = build("mlp")
        model.train(training)
        before = fingerprint(model)
        with pytest.raises(KeyError) as raised:
            ss.sample(model, x, logits=lambda output: {"logits": output}["nope"])
        assert raised.value.args == ("nope",)  # the traceback, and with it all frames, is still alive
        assert_unchanged(model, before)


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
    for low in (False, True):
        model, x = build(name)
        torch.manual_seed(1)
        logits = ss.sample(model, x, samples=3, memory="low") if low else loop(model, x, samples=3)
        loss = ss.vwci_loss(logits, torch.tensor([0, 1, 2, 3]))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [None if p.grad is None else p.grad for p in model.parameters()]
        results.append((loss.detach(), gradients, model.state_dict()))
    (loss, gradients, state), (low_loss, low_gradients, low_state) = results
    assert torch.equal(loss, low_loss)
    for gradient, replayed in zip(gradients, low_gradients, strict=True):
        torch.testing.assert_close(replayed, gradient, rtol=1e-6, atol=1e-7)
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
    assert peak(lambda: loop(model, x, samples=5)) > 4 * one
    assert peak(lambda: ss.sample(model, x, samples=5, memory="low")) <= 1.3 * one


DROP = nn.Sequential(nn.Dropout(0.5))
X = torch.randn(3, 4)


@pytest.mark.parametrize(
    ("model", "x", "options", "kind", "message"),
    [
        (nn.Linear(4, 2), X, {}, ValueError, r"Linear has no noise: .*nn.Dropout\(0.2\)"),
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.0)), X, {}, ValueError, "its Dropout has rate 0"),
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(1.0)), X, {}, ValueError, "'1' of Sequential has rate 1"),
        (DROP, X, {"samples": 0}, ValueError, "samples must be .*at least 1, got 0"),
        (DROP, X, {"gradient_passes": 0}, ValueError, "gradient_passes must be a whole number of at least 1, got 0"),
        (DROP, X, {"samples": 2, "gradient_passes": 3}, ValueError, "gradient_passes must be at most samples=2, got 3"),
        (DROP, X, {"memory": "none"}, ValueError, "memory='none' is unknown"),
        (DROP, X, {"seed": -1}, ValueError, "seed must"),
        (DROP, X, {"generator": 5}, TypeError, "generator must be a torch.Generator, got int"),
        (DROP, X, {"logits": "scores"}, TypeError, "logits must be a function of the model's output, got str"),
        (DROP, X[:0], {}, ValueError, r"the batch is empty: .* shape \(0, 4\)"),
        (
            nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5)),
            X,
            {"sample": 5},
            TypeError,
            "unexpected keyword argument 'sample'",
        ),
        (DROP, X, {"seed": 1, "generator": torch.Generator()}, ValueError, "seed or generator, not both"),
        (DROP, X, {"logits": lambda output: 3}, TypeError, "must return a tensor, got a int"),
        (
            nn.Sequential(nn.Dropout(0.5), nn.Flatten(0)),
            X,
            {},
            ValueError,
            r"shape \(B, C\), got torch.float32 \(12,\)",
        ),
        (nn.Sequential(nn.Linear(4, 2, device="meta"), nn.Dropout(0.5)), X, {}, ValueError, "the input is on cpu and"),
        (lambda x: x, X, {}, TypeError, "model must be an nn.Module, got function"),
    ],
)
def test_bad_input_is_named(
    model: nn.Module, x: Tensor, options: dict[str, object], kind: type[Exception], message: str
) -> None:
    for memory in ("normal", "low"):
        with pytest.raises(kind, match=message):
            ss.sample(model, x, **{"memory": memory, **options})  # type: ignore[arg-type]


def test_a_model_without_noise_cannot_be_made_stochastic() -> None:
    with pytest.raises(ValueError, match="has no noise"), ss.stochastic(nn.Linear(3, 2)):
        pass
    wrapper = nn.Sequential(nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2)).eval())
    with pytest.raises(ValueError, match=r"all its noise layers .* Call .eval\(\) on the Sequential"):
        ss.sample(wrapper, torch.randn(2, 3))


def test_stochastic_is_a_function_mode_only_for_functional_dropout() -> None:
    """A mode costs time in every torch call."""
    for name, needs_mode in (("mlp", False), ("transformer", False), ("functional", True), ("bert", True)):
        model, _ = build(name)
        with ss.stochastic(model.eval()):
            assert (_get_current_function_mode() is not None) == needs_mode, name  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["mlp", "skip_cnn", "resnet18", "bert"])
def test_nothing_is_kept_alive_until_garbage_is_collected(name: str) -> None:
    """A reference cycle would keep the activations of several steps in memory."""
    model, x = build(name)

    def tensors() -> int:
        return sum(issubclass(type(found), Tensor) for found in gc.get_objects())

    ss.sample(model, x, samples=3).sum().backward()  # type: ignore[no-untyped-call]
    gc.collect()
    gc.disable()
    try:
        before = tensors()
        for _ in range(2):
            ss.sample(model, x, samples=3).sum().backward()  # type: ignore[no-untyped-call]
            ss.sample(model, x, samples=3, gradient_passes=1).sum().backward()  # type: ignore[no-untyped-call]
        assert tensors() == before
    finally:
        gc.enable()
