"""Passes that share work by identity: a torch call on the very same inputs is computed once.

Inside `SharedCalls` every torch call is looked up by its function and the identity of its input tensors. A call that
was made before returns the tensors it returned then. Calls that draw random numbers are never remembered, and their
outputs are new tensors, so whatever depends on noise is computed again in every pass, and nothing else is.

Three things need care, and each tensor belongs to a `_Storage` that keeps track of them:

- A remembered call may write in place. Passes that follow find the tensor as it was left, so its storage carries the
  state the current pass has reached (``seen``) and the state that is in memory (``actual``). A call that has to run
  while the two differ raises `StaleTensorError`, and the pass is repeated without sharing what is written in place.
- Noise may be written into a tensor that passes share. The call that made the tensor is then made again in each pass.
- Parameters, buffers and inputs may be written to. Remembered calls that read them are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from singleshot.sampling.noise import FUNCTIONAL_NOISE
from singleshot.sampling.state import generator_state

Key = tuple[Any, ...]

_METADATA = frozenset(
    [
        Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.nelement, Tensor.__len__, Tensor.stride,
        Tensor.is_contiguous, Tensor.is_floating_point, Tensor.is_complex, Tensor.get_device, Tensor.element_size,
        Tensor.register_hook, Tensor.requires_grad_, Tensor.retain_grad, torch.is_floating_point, torch.is_complex,
        torch.numel, *(getattr(Tensor, name).__get__ for name in (
            "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "layout", "is_cuda", "is_sparse",
            "is_quantized", "is_meta", "is_mps", "is_nested", "grad", "_version",
        )),
    ]
)  # fmt: skip
"""Calls that say something about a tensor without reading its values: made as they are."""
MAX_UNUSED = 32
"""Passes after which an unused result is dropped, in passes without gradients."""
_IN_PLACE = frozenset(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift"))  # fmt: skip
_VALUES = (int, float, bool, str, bytes, complex, torch.dtype, torch.device, torch.layout, torch.memory_format)


class StaleTensorError(BaseException):
    """A pass needs a tensor as it was before an earlier pass wrote to it. Not an error of the model's."""


class _Storage:
    """The memory behind shared tensors."""

    __slots__ = ("actual", "address", "born", "maker", "read_by_noise", "seen", "tensors")

    def __init__(self, address: int, maker: Key | None, born: int) -> None:
        self.address = address
        self.born = born  # the number of the pass that made it
        self.maker = maker  # the remembered call that made it; None for parameters, buffers and inputs
        self.tensors: list[Tensor] = []  # kept, so that their ids stay theirs
        self.seen: int = 0  # which write the current pass has seen last; 0 before the first
        self.actual: int = 0  # which write was made last
        self.read_by_noise = False


class _Call:
    """A remembered call: what it returned, and which storages it left in which state."""

    __slots__ = ("last_used", "output", "reads", "writes")

    def __init__(self, output: Any, reads: list[_Storage], writes: list[tuple[_Storage, int]], last_used: int) -> None:
        self.output = output
        self.last_used = last_used  # in which pass
        self.reads = reads
        self.writes = writes


class SharedCalls(TorchFunctionMode):
    """Remembers torch calls over several passes of one model.

    Args:
        known: tensors that are the same in every pass: parameters, buffers and inputs.
        device: where the model draws its random numbers.
        share_writes: whether calls that write in place are remembered.
        on_noise: called with every function that draws random numbers for tensors that passes share.
    """

    def __init__(
        self,
        known: Iterable[Tensor],
        device: torch.device,
        *,
        share_writes: bool = True,
        on_noise: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__()
        self.device = device
        self.share_writes = share_writes
        self.on_noise = on_noise
        self.has_grad = True
        self._pass = 0
        self._calls: dict[Key, _Call] = {}
        self._unshared: set[Key] = set()
        self._storages: dict[int, _Storage] = {}  # by the address of the memory
        self._of_tensor: dict[int, _Storage] = {}  # by the id of the tensor
        self._written: set[_Storage] = set()
        self._writes = count(1)
        for tensor in known:
            self._keep(tensor, None)

    @property
    def has_writes(self) -> bool:
        """Whether a remembered call wrote in place, so that a later pass may find a tensor stale."""
        return bool(self._written)

    def next_pass(self, *, has_grad: bool = True) -> None:
        """Begin another pass. One without gradients may use results that have a graph."""
        self.has_grad = has_grad
        self._pass += 1
        for storage in self._written:
            storage.seen = 0
        if not torch.is_grad_enabled():
            self._drop_unused()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _METADATA:
            return func(*args, **kwargs)
        if func in FUNCTIONAL_NOISE:
            _check_rate(func, *args, **kwargs)
        return self.call(func, func, args, kwargs)

    def call(
        self,
        name: Any,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        is_pure: Callable[[], bool] | None = None,
    ) -> Any:
        """The result of this call, from memory if it was made before.

        Args:
            name: what is called, part of the key.
            function: what to call.
            args: its arguments.
            kwargs: and those by name.
            is_pure: asked after the call whether it left everything else as it was.
        """
        key, reads, tensors = self._key(name, args, kwargs)
        if key is not None:
            call = self._calls.get(key)
            if call is None and not self.has_grad:
                call = self._calls.get((key[0], True, *key[2:]))
            if call is not None and self._is_usable(call):
                call.last_used = self._pass
                for storage, write in call.writes:
                    storage.seen = write
                return call.output if isinstance(call.output, Tensor) else _copy(call.output)
        if self._written and any(storage.seen != storage.actual for storage in reads):
            raise StaleTensorError
        if reads and _writes_in_place(name, kwargs):
            target = self._of_tensor.get(id(tensors[0]))
            if target is not None and target.maker is not None and target.born < self._pass:
                raise StaleTensorError  # an earlier pass may need what would be written over, for its gradients
        before = [_version(tensor) for tensor in tensors]
        state = generator_state(self.device) if key is not None else None
        output = function(*args, **kwargs)
        written = [tensor for tensor, version in zip(tensors, before, strict=True) if _version(tensor) != version]
        drew = state is not None and state != generator_state(self.device)
        if key is None or drew or (is_pure is not None and not is_pure()):
            if drew and self.on_noise is not None:
                self.on_noise(name)
            self._run_again_next_time(reads, written)
            return output
        self._remember(key, output, reads, written)
        return output

    def _key(
        self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Key | None, list[_Storage], list[Tensor]]:
        """What identifies a call, None if it depends on noise; the shared storages it reads; all its tensors."""
        parts: list[Any] = [
            name,
            torch.is_grad_enabled(),
            torch.is_autocast_enabled(self.device.type),
            torch._C._autograd._top_saved_tensors_default_hooks(True),  # a checkpoint must see all its calls
        ]
        reads: list[_Storage] = []
        tensors: list[Tensor] = []
        shared = self._describe(args, parts, reads, tensors)
        if kwargs:
            shared = self._describe(kwargs.items(), parts, reads, tensors) and shared
        if not shared:
            return None, reads, tensors
        key = tuple(parts)
        try:
            return (None if key in self._unshared else key), reads, tensors
        except TypeError:  # an argument that has no hash
            return None, reads, tensors

    def _describe(self, items: Iterable[Any], parts: list[Any], reads: list[_Storage], tensors: list[Tensor]) -> bool:
        shared = True
        for item in items:
            if isinstance(item, Tensor):
                tensors.append(item)
                storage = self._of_tensor.get(id(item))
                if storage is None:
                    shared = False
                else:
                    parts += (id(item), storage.seen)
                    reads.append(storage)
            elif item is None or item is Ellipsis or isinstance(item, type):
                parts.append(item)
            elif isinstance(item, _VALUES):
                parts += (type(item), item)
            elif isinstance(item, (tuple, list)):
                parts += (type(item), len(item))
                shared = self._describe(item, parts, reads, tensors) and shared
            elif isinstance(item, dict):
                parts += (type(item), len(item))
                shared = self._describe(item.items(), parts, reads, tensors) and shared
            elif isinstance(item, slice):
                parts.append(slice)
                shared = self._describe((item.start, item.stop, item.step), parts, reads, tensors) and shared
            else:
                shared = False
        return shared

    def _is_usable(self, call: _Call) -> bool:
        """A custom autograd function that returns a remembered tensor makes it its own: such a tensor is not shared."""
        output = call.output
        return torch.is_grad_enabled() or not self.has_grad or not (isinstance(output, Tensor) and output.requires_grad)

    def _remember(self, key: Key, output: Any, reads: list[_Storage], written: list[Tensor]) -> None:
        leaves = [output] if isinstance(output, Tensor) else tree_flatten(output)[0]
        if not all(leaf is None or isinstance(leaf, (Tensor, *_VALUES)) for leaf in leaves):
            return
        if not reads and not any(isinstance(leaf, Tensor) for leaf in leaves):
            return  # such as set_grad_enabled: a switch must be set in every pass
        targets = {self._storage_of(tensor) for tensor in written}
        if any(
            storage is None or storage.maker is None or storage.read_by_noise or not self.share_writes
            for storage in targets
        ):
            self._run_again_next_time(reads, written)
            return
        writes = []
        for storage in targets:
            assert storage is not None
            storage.seen = storage.actual = next(self._writes)
            self._written.add(storage)
            writes.append((storage, storage.seen))
        for leaf in leaves:
            if isinstance(leaf, Tensor) and id(leaf) not in self._of_tensor:
                self._keep(leaf, key)
        self._calls[key] = _Call(output, reads, writes, self._pass)

    def _drop_unused(self) -> None:
        """Without gradients nothing but this memory keeps tensors alive: drop what the last passes did not use.

        A call is used at least as recently as the calls that read its output, so these are dropped with it.
        """
        for key, call in list(self._calls.items()):
            if call.last_used < self._pass - MAX_UNUSED:
                del self._calls[key]
        for storage in list(self._storages.values()):
            if storage.maker is not None and storage.maker not in self._calls:
                del self._storages[storage.address]
                self._written.discard(storage)
                for tensor in storage.tensors:
                    del self._of_tensor[id(tensor)]

    def _run_again_next_time(self, reads: list[_Storage], written: list[Tensor]) -> None:
        """What a call that is not remembered read must stay as it is, and what it wrote to is no longer shared."""
        for storage in reads:
            storage.read_by_noise = True
        for tensor in written:
            target = self._storage_of(tensor)
            if target is not None:
                self._forget(target)

    def forget(self, tensors: Iterable[Tensor]) -> None:
        """These tensors were written to by something that is not seen here."""
        self._run_again_next_time([], list(tensors))

    def _forget(self, storage: _Storage) -> None:
        del self._storages[storage.address]
        for tensor in storage.tensors:
            del self._of_tensor[id(tensor)]
        self._written.discard(storage)
        if storage.maker is not None:
            self._unshared.add(storage.maker)
            self._calls.pop(storage.maker, None)
        else:  # nobody makes it again: whatever was computed from it is computed again
            for key in [key for key, call in self._calls.items() if storage in call.reads]:
                del self._calls[key]

    def _keep(self, tensor: Tensor, maker: Key | None) -> None:
        address = _address(tensor)
        storage = self._storages.get(address)
        if storage is None:
            storage = self._storages[address] = _Storage(address, maker, self._pass)
        storage.tensors.append(tensor)
        self._of_tensor[id(tensor)] = storage

    def _storage_of(self, tensor: Tensor) -> _Storage | None:
        return self._of_tensor.get(id(tensor)) or self._storages.get(_address(tensor))


def _check_rate(
    function: Callable[..., Any], input: Tensor, p: float = 0.5, training: bool = True, *_: Any, **__: Any
) -> None:
    if p == 1 and training:
        raise ValueError(f"{function.__name__} has rate 1, which drops everything; use a lower rate")


def _writes_in_place(name: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call announces that it writes to its first argument."""
    spelled = getattr(name, "__name__", "")
    if spelled.startswith("__"):
        return spelled == "__setitem__" or (spelled.startswith("__i") and spelled in _IN_PLACE)
    return spelled.endswith("_") or kwargs.get("inplace") is True or getattr(name, "inplace", False) is True


def _copy(output: Any) -> Any:
    """The same tensors in containers of their own: the caller may change a list or a dict."""
    leaves, spec = tree_flatten(output)
    return tree_unflatten(leaves, spec)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _address(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(tensor)
