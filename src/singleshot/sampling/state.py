"""The state around a forward pass: buffers, random numbers, and which thread uses a model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_BUSY: dict[int, tuple[int, bool]] = {}  # module ids: the thread that uses it, and whether it may use it again
_BUSY_LOCK = threading.Lock()


@contextmanager
def used_by_this_thread(model: nn.Module, modules: Sequence[nn.Module], *, again: bool = False) -> Iterator[None]:
    """Refuse a model of which a module is in use already: its modes and its forward are changed.

    With ``again``, this thread may use the modules once more inside.
    """
    thread, ids = threading.get_ident(), set(map(id, modules))
    with _BUSY_LOCK:
        mine = {number for number in ids if _BUSY.get(number) == (thread, True)}
        if not _BUSY.keys().isdisjoint(ids - mine):
            raise RuntimeError(
                f"this {type(model).__name__} is already being sampled, by another thread or further up in this one; "
                "use a copy of the model in each thread (copy.deepcopy)"
            )
        before = {number: _BUSY[number] for number in mine}
        _BUSY.update(dict.fromkeys(ids, (thread, again)))
    try:
        yield
    finally:
        with _BUSY_LOCK:
            for number in ids - mine:
                del _BUSY[number]
            _BUSY.update(before)


class OnlyInThisThread:
    """The forward of a module whose noise is on: refused in other threads, where it should be off.

    Its draws wait for a call to `sample` with a seed in another thread, which has the generator to itself.
    """

    def __init__(self, module: nn.Module) -> None:
        self.original, self.kind, self.thread = module.forward, type(module).__name__, threading.get_ident()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward of the module, in the thread that switched its noise on."""
        if threading.get_ident() != self.thread:
            raise RuntimeError(
                f"this {self.kind} is being sampled by another thread, with its noise on; use a copy of the model in "
                "each thread (copy.deepcopy)"
            )
        with GENERATOR_LOCK.hold(alone=False):
            return self.original(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.original, memo)


@contextmanager
def replaced(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of this module alone, not of its class."""
    attributes = vars(module)
    before = attributes.get(name, _NOTHING)
    attributes[name] = value
    try:
        yield
    finally:
        if before is _NOTHING:
            del attributes[name]
        else:
            attributes[name] = before


_NOTHING = object()


@contextmanager
def frozen_buffers(model: nn.Module) -> Iterator[None]:
    """Let the model work on copies of its buffers, so that running statistics are not recorded."""
    kept = [(module, dict(module._buffers)) for module in model.modules() if module._buffers]
    try:
        for module, buffers in kept:
            module._buffers.update({name: _copy(buffer) for name, buffer in buffers.items()})
        yield
    finally:
        for module, buffers in kept:
            module._buffers.update(buffers)


def is_lazy(tensor: Tensor) -> bool:
    """Whether a lazy module has yet to learn this tensor's shape."""
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _copy(buffer: Tensor | None) -> Tensor | None:
    return buffer if buffer is None or is_lazy(buffer) else buffer.clone()


def generator_state(device: torch.device) -> bytes:
    """The state of torch's generators, to compare with."""
    state = torch.default_generator.get_state().numpy().tobytes()
    if device.type == "cuda":
        state += torch.cuda.get_rng_state(device).numpy().tobytes()
    elif device.type == "mps":
        state += torch.mps.get_rng_state().numpy().tobytes()
    return state


MAX_WAIT = 3600.0  # seconds for which a call waits while no other call gets the generator


class _GeneratorLock:
    """Calls with a seed have torch's global generator to themselves; other calls share it.

    Calls are admitted in the order in which they came, so that neither kind can keep the other one waiting for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0  # -1 while one thread has it alone
        self._admitted = 0  # calls so far
        self._waiting: list[int] = []  # threads, in the order in which they came
        self._mine = threading.local()

    @contextmanager
    def hold(self, *, alone: bool) -> Iterator[None]:
        if getattr(self._mine, "held", False):  # a model that samples another one in its forward
            yield
            return
        thread = threading.get_ident()
        with self._changed:
            self._waiting.append(thread)
            try:
                before = self._admitted
                while not self._changed.wait_for(
                    lambda: self._waiting[0] == thread and (self._holders == 0 if alone else self._holders >= 0),
                    MAX_WAIT,
                ):
                    if self._admitted == before:
                        raise RuntimeError(
                            f"another thread has used torch's generator for {MAX_WAIT:g} seconds in one call to sample "
                            "with a seed, or waits in its forward for this thread, which is not possible; sample in "
                            "that thread, or in a process"
                        )
                    before = self._admitted
                self._admitted += 1
                self._holders += -1 if alone else 1
            finally:  # also if the wait is interrupted
                self._waiting.remove(thread)
                self._changed.notify_all()
        self._mine.held = True
        try:
            yield
        finally:
            self._mine.held = False
            with self._changed:
                self._holders += 1 if alone else -1
                self._changed.notify_all()


GENERATOR_LOCK = _GeneratorLock()


@contextmanager
def random_state(seed: int | None, generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Draw from a seed or a generator and restore torch's random state; without either, restore it after an error."""
    own = seed is not None or generator is not None
    with GENERATOR_LOCK.hold(alone=own):
        before = save_random_state(device)
        finished = False
        try:
            if seed is not None:
                torch.manual_seed(seed)
            elif generator is not None:
                _default_like(generator).set_state(generator.get_state())
            yield
            finished = True
        finally:
            if generator is not None:
                generator.set_state(_default_like(generator).get_state())
            if own or not finished:
                restore_random_state(before, device)


def save_random_state(device: torch.device) -> list[Tensor]:
    """The states of torch's generators on the CPU and on this device."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def restore_random_state(states: list[Tensor], device: torch.device) -> None:
    """Put back what `save_random_state` saved."""
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state, device)


def _default_like(generator: torch.Generator) -> torch.Generator:
    if generator.device.type == "cuda":
        return torch.cuda.default_generators[generator.device.index or 0]
    return torch.default_generator
