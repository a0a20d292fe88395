"""T stochastic predictions of one batch, computing once what the passes have in common."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from singleshot.sampling.arguments import Extract, check_arguments, device_of
from singleshot.sampling.low_memory import replayed_passes
from singleshot.sampling.noise import check_noise, no_noise_message, noise_on, runs_compiled_code
from singleshot.sampling.shared_modules import NORMS, shared_modules
from singleshot.sampling.sharing import SharedCalls, StaleTensorError
from singleshot.sampling.state import (
    generator_state,
    is_lazy,
    random_state,
    restore_random_state,
    save_random_state,
    used_by_this_thread,
)


def sample(
    model: nn.Module,
    *args: Any,
    samples: int = 5,
    gradient_passes: int | None = None,
    logits: Extract | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    memory: str = "normal",
    **kwargs: Any,
) -> Tensor:
    """Logits (T, B, C) of T stochastic passes over one batch, differentiable.

    Bit-identical to ``torch.stack([model(*args, **kwargs) for _ in range(T)])`` from the same random state, but what
    the passes have in common is computed once. In training mode a batch norm that several passes share records its
    batch once, where a loop would record it T times. In evaluation mode the passes are Monte Carlo inference: noise
    is switched on for the call, everything else (batch norm!) stays in evaluation mode, and afterwards the model is
    bit for bit what it was.

    Args:
        model: any classifier with noise layers.
        *args: inputs of the model.
        samples: T.
        gradient_passes: how many of the T passes carry gradients, k; by default all. The first k do, the others run
            without a graph. Backward multiplies the gradients of the k passes by T / k, so a loss that is a mean over
            all passes has the gradient of its mean over those k: a step is as large as with k = T.
        logits: returns the logits, given the output of the model. By default that is the output itself, its
            ``logits`` if it is a dict or an object, or the first matrix of a tuple.
        seed: the same seed gives the same samples, and leaves torch's random state as it was.
        generator: draw from this generator instead, and advance it.
        memory: ``low`` keeps the activations of one pass only, and runs each pass forward twice.
        **kwargs: inputs of the model by name.

    Returns:
        (T, B, C); in general T outputs of the model in its own layout: (T, B, C, H, W) of a segmentation network,
        (T, B, L, C) of a token classifier, whose classes ``movedim(-1, 2)`` puts where losses and metrics expect them.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> sample(model, torch.randn(2, 4), samples=5).shape
    torch.Size([5, 2, 3])
    """
    check_arguments(model, samples, gradient_passes, logits=logits, seed=seed, generator=generator, memory=memory)
    device = device_of(model, (args, kwargs))
    modules = list(model.modules())
    check_noise(model, modules)
    with used_by_this_thread(model, modules), random_state(seed, generator, device), noise_in_mode(model, modules):
        passes = replayed_passes if memory == "low" else shared_passes
        found: list[Tensor] = []
        with require_differing_passes(model, device, found):
            found += passes(
                model,
                args,
                kwargs,
                samples,
                gradient_passes=gradient_passes,
                extract=lambda output: _checked((logits or find_logits)(output)),
            )
    if gradient_passes is None or gradient_passes == samples:
        return torch.stack(found)
    return _with_some_gradients(found, gradient_passes)


def _with_some_gradients(found: list[Tensor], carrying: int) -> Tensor:
    """Stack passes of which only the first carry gradients, scaled up so that they stand for all of them."""
    rest = torch.stack([one.detach() for one in found[carrying:]])
    first: Tensor = _ScaledGradient.apply(torch.stack(found[:carrying]), len(found) / carrying)  # type: ignore[no-untyped-call]
    return torch.cat([first, rest])


class _ScaledGradient(torch.autograd.Function):
    """Multiplies the gradient, and refuses a second derivative: its chain rule would apply the factor again."""

    @staticmethod
    def forward(context: Any, values: Tensor, scale: float) -> Tensor:
        context.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # not once_differentiable, which torch.autograd.grad can silently skip
            raise RuntimeError("create_graph=True needs gradients in all passes; leave out gradient_passes")
        return gradient * context.scale, None


class Sampled(nn.Module):
    """A model that returns T stochastic predictions (T, B, C) in training mode, its logits (B, C) in evaluation mode.

    This is what goes inside DistributedDataParallel, FSDP, Lightning or skorch, so that they see all passes.

    Args:
        model: any classifier with noise layers.
        samples: T.
        gradient_passes: see :func:`sample`.
        logits: see :func:`sample`.
        memory: see :func:`sample`.

    >>> model = Sampled(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)), samples=5)
    >>> model(torch.randn(2, 4)).shape, model.eval()(torch.randn(2, 4)).shape
    (torch.Size([5, 2, 3]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        model: nn.Module,
        samples: int = 5,
        *,
        gradient_passes: int | None = None,
        logits: Extract | None = None,
        memory: str = "normal",
    ) -> None:
        super().__init__()
        check_arguments(model, samples, gradient_passes, logits=logits, memory=memory)
        self.model = model
        self.samples = samples
        self.gradient_passes = gradient_passes
        self.logits = logits
        self.memory = memory

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Inputs of the model to its logits."""
        if not self.training:
            return (self.logits or find_logits)(self.model(*args, **kwargs))
        return sample(
            self.model,
            *args,
            samples=self.samples,
            gradient_passes=self.gradient_passes,
            logits=self.logits,
            memory=self.memory,
            **kwargs,
        )

    def extra_repr(self) -> str:
        """The number of passes."""
        return f"samples={self.samples}, gradient_passes={self.gradient_passes}, memory={self.memory!r}"


def shared_passes(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    samples: int,
    *,
    gradient_passes: int | None = None,
    extract: Callable[[Any], Any] = lambda output: output,
    on_noise: Callable[[Any], None] | None = None,
    around_pass: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> list[Any]:
    """Return ``extract(output)`` of each pass. What passes have in common is computed by the first that needs it."""
    device = device_of(model, (args, kwargs))
    parts = list(model.modules())
    known = _known_tensors(parts, (args, kwargs))

    def run(sharing: SharedCalls | None, has_grad: bool) -> Any:
        with around_pass(), sharing or nullcontext(), nullcontext() if has_grad else torch.no_grad():
            return extract(model(*args, **kwargs))

    carrying = samples if gradient_passes is None else gradient_passes
    if runs_compiled_code(model):  # which is one call
        return [run(None, number < carrying) for number in range(samples)]
    found: list[Any] = []
    copies: dict[Tensor, tuple[int | None, Tensor]] = {}
    sharing = SharedCalls(known, device, on_noise=on_noise)
    with ExitStack() as modules:
        modules.enter_context(shared_modules(model, sharing))
        for number in range(samples):
            has_grad = number < carrying
            if number:
                _copy_buffers(parts, copies)
            before = save_random_state(device), random.getstate()
            sharing.next_pass(has_grad=has_grad)
            try:
                found.append(run(sharing, has_grad))
            except StaleTensorError:
                restore_random_state(before[0], device)
                random.setstate(before[1])
                for buffer, (_, value) in copies.items():
                    buffer.copy_(value)
                modules.close()
                sharing = SharedCalls(known, device, cache_writes=False, on_noise=on_noise)
                modules.enter_context(shared_modules(model, sharing))
                sharing.next_pass(has_grad=has_grad)
                found.append(run(sharing, has_grad))
    return found


def _known_tensors(modules: list[nn.Module], inputs: Any) -> list[Tensor]:
    """Tensors that are the same in every pass. The running statistics of a batch norm are not."""
    tensors = tree_leaves(inputs)
    for module in modules:
        tensors += module._parameters.values()
        if not isinstance(module, NORMS):
            tensors += module._buffers.values()
    return [tensor for tensor in tensors if isinstance(tensor, Tensor) and not is_lazy(tensor)]


def _copy_buffers(modules: list[nn.Module], copies: dict[Tensor, tuple[int | None, Tensor]]) -> None:
    """Copy the buffers that have changed since their last copy."""
    for module in modules:
        for buffer in module._buffers.values():
            if buffer is not None and not is_lazy(buffer):
                version = None if buffer.is_inference() else buffer._version  # an inference tensor has none
                if version is None or copies.get(buffer, (None,))[0] != version:
                    copies[buffer] = version, buffer.clone()


def noise_in_mode(model: nn.Module, modules: Sequence[nn.Module]) -> AbstractContextManager[None]:
    """In training mode noise follows the modes; in evaluation mode it is switched on."""
    return nullcontext() if model.training else noise_on(modules)


@contextmanager
def require_differing_passes(model: nn.Module, device: torch.device, found: list[Tensor]) -> Iterator[None]:
    """Raise if nothing random happened and all passes are equal."""
    before = generator_state(device)
    yield
    if not found[0].numel():
        raise ValueError(f"the batch is empty: the model returned logits of shape {tuple(found[0].shape)}")
    if len(found) > 1 and generator_state(device) == before and all(bool((one == found[0]).all()) for one in found[1:]):
        raise ValueError(no_noise_message(model))


def find_logits(output: Any) -> Tensor:
    """The logits in what a model returns: a tensor, ``logits`` of a dict or object, or the first matrix of a tuple."""
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif isinstance(getattr(output, "logits", None), Tensor):
        output = output.logits
    elif isinstance(output, (tuple, list)):
        output = next((item for item in output if isinstance(item, Tensor) and item.ndim > 1), output)
    if not isinstance(output, Tensor):
        raise TypeError(
            f"cannot find logits in a {type(output).__name__}; say where they are: logits=lambda output: output[...]"
        )
    return output


def _checked(logits: Any) -> Tensor:
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits= must return a tensor, got a {type(logits).__name__}")
    if logits.ndim < 2 or not logits.is_floating_point():
        raise ValueError(f"logits must be floating point of shape (B, C), got {logits.dtype} {tuple(logits.shape)}")
    return logits
