"""Passes that share work by identity: a torch call on the very same input tensors is computed once.

Inside `SharedCalls` every torch call is looked up by its function and the identity of its input tensors. A repeated
call returns the cached output tensors. Calls that draw random numbers are never cached and return new tensors, so
everything that depends on noise is computed again in every pass, and nothing else is.

Writes in place need care. Each tensor belongs to a `Storage`, which tracks them:

- A cached call may write in place. Later passes find the tensor as it was left, so its storage records the last write
  that the current pass has made (``seen``) and the last one in memory (``actual``). A call that has to run while the
  two differ raises `StaleTensorError`, and the pass is repeated without caching writes.
- Noise may be written into a shared tensor. The call that made the tensor then runs again in every pass.
- Parameters, buffers and inputs may be written to. Cached calls that read them are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch._C._autograd import _top_saved_tensors_default_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from singleshot.sampling.cached_calls import CachedCall, Description, Key, Storage
from singleshot.sampling.noise import FUNCTIONAL_NOISE
from singleshot.sampling.state import generator_state
from singleshot.sampling.torch_calls import (
    EXPOSING,
    METADATA,
    VALUES,
    address_of,
    announced_writes,
    check_rate,
    version_of,
)

MAX_UNUSED = 32
"""Passes after which an unused cached call is dropped, in passes without gradients."""


class StaleTensorError(BaseException):
    """A pass needs a tensor as it was before another pass wrote to it. Internal; the pass is repeated."""


class SharedCalls(TorchFunctionMode):
    """Caches torch calls over several passes of one model.

    Args:
        known: tensors that are the same in every pass: parameters, buffers and inputs.
        device: where the model draws random numbers.
        cache_writes: whether calls that write in place are cached.
        on_noise: called with every function that draws random numbers.
    """

    def __init__(
        self,
        known: Iterable[Tensor],
        device: torch.device,
        *,
        cache_writes: bool = True,
        on_noise: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__()
        self.device = device
        self._autocast = device.type if torch.amp.is_autocast_available(device.type) else "cpu"
        self.cache_writes = cache_writes
        self.on_noise = on_noise
        self.has_grad = True
        self.dropped = 0  # storages that were dropped so far
        self._pass = 0
        self._generator: bytes | None = None  # the state of the generators, if no call has run since it was read
        self._occurrences: Counter[Key] = Counter()  # of each call in this pass: equal calls make separate tensors
        self._calls: dict[Key, CachedCall] = {}
        self._uncached: set[Key] = set()
        self._storages: dict[int, Storage] = {}  # by address
        self._of_tensor: dict[int, Storage] = {}  # by the id of the tensor
        self._written: set[Storage] = set()
        self._writes = count(1)
        for tensor in known:
            self._track(tensor, None)

    def next_pass(self, *, has_grad: bool = True) -> None:
        """Start another pass. A pass without gradients may use cached tensors that have a graph."""
        self.has_grad = has_grad
        self._generator = None
        self._pass += 1
        self._occurrences.clear()
        for storage in self._written:
            storage.seen = 0
        if not (has_grad and torch.is_grad_enabled()):  # otherwise the graph keeps the tensors alive anyway
            unused = [key for key, call in self._calls.items() if call.last_used < self._pass - MAX_UNUSED]
            self._drop([storage for key in unused for storage in self._drop_call(key)])

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in METADATA or torch._C._functorch.peek_interpreter_stack() is not None:
            return func(*args, **kwargs)
        if func in EXPOSING:
            self.forget(args[:1])
            return func(*args, **kwargs)
        if func in FUNCTIONAL_NOISE:
            check_rate(func, *args, **kwargs)
        return self.call(func, func, args, kwargs)

    def call(
        self,
        name: Any,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        state: Description | None = None,
    ) -> Any:
        """Return the output of ``function(*args, **kwargs)``, cached under ``name`` and the identity of its inputs.

        Args:
            name: part of the key: a torch function or a module.
            function: computes the output.
            args: positional arguments.
            kwargs: keyword arguments.
            state: what else the output depends on, such as the weights of a module.
        """
        key, inputs = self._key(name, args, kwargs, state)
        reads, tensors = inputs.reads, inputs.tensors
        call = self._find(key) if key is not None else None
        if call is not None:
            call.last_used = self._pass
            for storage, write in call.writes:
                storage.seen = write
            return call.output if isinstance(call.output, Tensor) else _copied(call.output)
        announced = announced_writes(name, kwargs, tensors)
        self._check_current(reads, announced)
        before = [version_of(tensor) for tensor in tensors]
        generator = (self._generator or generator_state(self.device)) if key is not None else None
        self._generator = None
        output = function(*args, **kwargs)
        written = [tensor for tensor, version in zip(tensors, before, strict=True) if version_of(tensor) != version]
        written += (tensor for tensor in announced if tensor.is_inference())  # which has no version
        if key is not None:
            self._generator = generator_state(self.device)
        drew = key is not None and self._generator != generator
        if drew and self.on_noise is not None:
            self.on_noise(name)
        if key is None or drew:
            self._note_uncached(reads, written)
        else:
            self._cache(key, output, reads, written)
        return output

    def _key(
        self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any], state: Description | None
    ) -> tuple[Key | None, Description]:
        """Return the key of a call, None if it depends on noise, and what it reads."""
        inputs = Description(
            [
                name,
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.get_default_dtype(),
                torch.is_autocast_enabled(self._autocast) and torch.get_autocast_dtype(self._autocast),
                _top_saved_tensors_default_hooks(True),  # a checkpointed region must run all its calls
            ]
        )
        inputs.add(args, self._of_tensor)
        inputs.add(kwargs.items(), self._of_tensor)
        if state is not None:
            inputs.parts += state.parts
            inputs.reads += state.reads
            inputs.tensors += state.tensors
            inputs.is_shared = inputs.is_shared and state.is_shared
        if not inputs.is_shared:
            return None, inputs
        key = tuple(inputs.parts)
        self._occurrences[key] += 1
        key = (*key, self._occurrences[key])
        return (None if key in self._uncached else key), inputs

    def describe(self, items: Iterable[Any]) -> Description:
        """What identifies these items in a key."""
        description = Description([])
        description.add(items, self._of_tensor)
        return description

    def _find(self, key: Key) -> CachedCall | None:
        call = self._calls.get(key)
        if self.has_grad:
            # A tensor made without a graph that has one now is the output of a custom autograd function.
            is_taken = call is not None and not key[1] and getattr(call.output, "requires_grad", False)
            return None if is_taken else call
        return call or self._calls.get((key[0], True, *key[2:]))

    def _check_current(self, reads: list[Storage], written: list[Tensor]) -> None:
        """Raise if another pass left one of the tensors in another state, or needs what would be overwritten."""
        if self._written and any(storage.seen != storage.actual for storage in reads):
            raise StaleTensorError
        for tensor in written:
            target = self._of_tensor.get(id(tensor))
            if target is not None and target.maker is not None and target.born < self._pass:
                raise StaleTensorError

    def _cache(self, key: Key, output: Any, reads: list[Storage], written: list[Tensor]) -> None:
        leaves = [output] if isinstance(output, Tensor) else tree_flatten(output)[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        is_known = all(leaf is None or isinstance(leaf, (Tensor, *VALUES)) for leaf in leaves)
        # A call without tensors is a switch such as set_grad_enabled, to be set in every pass.
        if not is_known or not (reads or tensors):
            self._note_uncached(reads, written)
            return
        targets = {self._storage_of(tensor) for tensor in written} - {None}
        can_cache = all(storage.maker is not None and not storage.read_by_noise for storage in targets if storage)
        if written and not (can_cache and self.cache_writes):
            self._note_uncached(reads, written)
            return
        writes = []
        for storage in targets:
            if storage is not None:
                storage.seen = storage.actual = next(self._writes)
                self._written.add(storage)
                writes.append((storage, storage.seen))
        made = [self._track(tensor, key) for tensor in tensors if id(tensor) not in self._of_tensor]
        output = output if isinstance(output, Tensor) else _copied(output)
        self._calls[key] = CachedCall(output, [storage for storage in made if storage.maker == key], writes, self._pass)
        for storage in reads:
            storage.readers.add(key)

    def _note_uncached(self, reads: list[Storage], written: list[Tensor]) -> None:
        """After a call that is not cached: what it wrote to is no longer shared."""
        for storage in reads:
            storage.read_by_noise = True
        self.forget(written)

    def forget(self, tensors: Iterable[Tensor]) -> None:
        """Stop sharing these tensors, because their values depend on the pass."""
        found = [storage for tensor in tensors if (storage := self._storage_of(tensor)) is not None]
        for storage in found:
            if storage.maker is not None:
                self._uncached.add(storage.maker)
                found += self._drop_call(storage.maker)
        self._drop(found)

    def _drop(self, storages: list[Storage]) -> None:
        """Drop these storages, the cached calls that read them, and so on."""
        while storages:
            storage = storages.pop()
            if self._storages.get(storage.address) is storage:
                del self._storages[storage.address]
                self.dropped += 1
                self._written.discard(storage)
                for tensor in storage.tensors:
                    del self._of_tensor[id(tensor)]
                storages += (made for key in storage.readers for made in self._drop_call(key))

    def _drop_call(self, key: Key) -> list[Storage]:
        call = self._calls.pop(key, None)
        return [] if call is None else call.made

    def _track(self, tensor: Tensor, maker: Key | None) -> Storage:
        address = address_of(tensor)
        storage = self._storages.get(address)
        if storage is None:
            storage = self._storages[address] = Storage(address, maker, self._pass)
        storage.tensors.append(tensor)
        self._of_tensor[id(tensor)] = storage
        return storage

    def _storage_of(self, tensor: Tensor) -> Storage | None:
        return self._of_tensor.get(id(tensor)) or self._storages.get(address_of(tensor))


def _copied(output: Any) -> Any:
    """The same tensors in new containers: a caller may change a list or a dict."""
    return tree_map(lambda leaf: leaf, output)
