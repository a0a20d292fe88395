"""A classifier as a traced program: inputs in, logits and probabilities out, no randomness, temperature included.

The traced graph shows which linear layer computes the logits, whether its weights are used elsewhere, and whether a
random number is still drawn.
"""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_scores, probability_rows
from singleshot.data.augmentation import Normalization
from singleshot.export.inputs import Inputs
from singleshot.sampling.sampler import find_logits
from singleshot.sampling.state import replaced


class Classifier(nn.Module):
    """Inputs to the logits and probabilities of a copy of a model, in evaluation mode, in float32 and on the CPU.

    With a ``normalization``, inputs are pixels in [0, 255] that are normalized first.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self, model: nn.Module, *, normalization: Normalization | None = None, temperature: float | None = None
    ) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().float()
        self.normalizes = normalization is not None
        if normalization is not None:
            self.register_buffer("scale", normalization.scale)
            self.register_buffer("shift", normalization.shift)
        self.temperature = temperature
        self.eval()

    def forward(self, *args: Tensor, **kwargs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and probabilities, both (N, C), of inputs (N, ...)."""
        logits = self.model_logits(*args, **kwargs)
        if self.temperature is not None:
            logits = logits / self.temperature
        return logits, torch.softmax(logits, 1)

    def model_logits(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        """Return the logits of the model, without the temperature."""
        if self.normalizes:
            args = (args[0].float() * self.scale + self.shift,)
        with _without_fused_attention():
            return find_logits(self.model(*args, **kwargs))


def count_classes(classifier: Classifier, inputs: Inputs) -> int:
    """Return the number of classes, after checking that the model maps the inputs to logits (N, C)."""
    try:
        with torch.no_grad():
            logits = inputs.call(classifier.model_logits)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"the model cannot be run on an example of {inputs}: {first_line(error)}") from error
    check_scores(logits, ("(N, C)",), name="the model's output")
    if len(logits) != len(inputs):
        raise ValueError(f"the model must return one row of logits per input, got {len(logits)} for {len(inputs)}")
    if logits.shape[1] == 1:
        raise ValueError(
            "the model returns one logit, whose softmax is always 1; export a model that returns two, such as "
            "torch.cat([torch.zeros_like(logit), logit], 1)"
        )
    if bool(probability_rows(logits).all()):
        raise ValueError("the model returns probabilities: every row sums to 1; export it without its softmax")
    return int(logits.shape[1])


def trace(classifier: Classifier, example: Inputs) -> tuple[torch.export.ExportedProgram, bool]:
    """Trace a classifier for any batch size, from an example with at least two rows.

    The temperature is folded into the weights and bias of the last layer if that is a linear layer whose weights are
    not used elsewhere. Otherwise the logits are divided by it. The second result is whether it was folded.
    """
    if classifier.temperature is not None:
        unscaled = copy.copy(classifier)  # shares the weights, which are replaced and never modified
        unscaled.temperature = None
        exported = _trace(unscaled, example)
        if _fold_temperature(exported, classifier.temperature):
            return exported, True
    return _trace(classifier, example), False


def _trace(classifier: Classifier, example: Inputs) -> torch.export.ExportedProgram:
    try:
        with quiet(), torch.no_grad(), _arguments_named(classifier, example):
            batch = {0: torch.export.Dim("batch")}
            shapes: Any = dict.fromkeys(example.kwargs, batch) or {"args": tuple(batch for _ in example.args)}
            exported = torch.export.export(
                classifier, example.args, example.kwargs, dynamic_shapes=shapes, strict=False
            )
    except Exception as error:  # tracing runs the model's code, which may raise anything
        reason = first_line(error)
        if reason.startswith("Constraints violated"):
            reason = "its code makes the batch size a constant; use x.shape[0] in place of len(x)"
        raise ValueError(f"torch.export cannot trace the model for any batch size: {reason}") from error
    _remove_inactive_dropout(exported.graph_module)
    for node in exported.graph.nodes:
        node.meta.pop("stack_trace", None)  # it would store paths and source lines in the file
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _is_without_dropout(node):
            raise ValueError(
                f"the model draws random numbers in evaluation mode ({node.target}), so a file cannot reproduce it; "
                "make the noise depend on self.training: F.dropout(x, p, training=self.training)"
            )
    return exported


def _is_without_dropout(node: torch.fx.Node) -> bool:
    """Whether a call of an attention function, which is tagged as random, has a dropout of 0."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return "dropout_p" in names and given.get("dropout_p", 0.0) == 0


@contextmanager
def _arguments_named(classifier: Classifier, example: Inputs) -> Iterator[None]:
    """Give the forward of the classifier the arguments of the example: torch.export does not take ``**kwargs``."""
    original = classifier.forward

    def forward(*args: Tensor, **kwargs: Tensor) -> tuple[Tensor, Tensor]:
        return original(*args, **kwargs)

    kind = inspect.Parameter.KEYWORD_ONLY
    forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in example.kwargs])  # type: ignore[attr-defined]
    with replaced(classifier, "forward", forward) if example.kwargs else nullcontext():
        yield


@contextmanager
def _without_fused_attention() -> Iterator[None]:
    """Run nn.TransformerEncoder through its ordinary path: ONNX has no counterpart of the fused one."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _remove_inactive_dropout(module: torch.fx.GraphModule) -> None:
    aten = torch.ops.aten
    names = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    dropouts = {getattr(aten, name).default for name in names}  # each called with (input, p, train)
    for node in list(module.graph.nodes):
        if node.target in dropouts and node.args[2] is False:
            if any(user.op == "output" for user in node.users):
                node.target, node.args = aten.clone.default, node.args[:1]  # the signature refers to outputs by name
                continue
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()


def _fold_temperature(exported: torch.export.ExportedProgram, temperature: float) -> bool:
    """Divide weights and bias of the last layer; return False, without a change, if that is not possible."""
    output = next(node for node in exported.graph.nodes if node.op == "output")
    layer = output.args[0][0]
    if layer.target is not torch.ops.aten.linear.default:
        return False
    parameters = exported.graph_signature.inputs_to_parameters
    used = [node for node in layer.args[1:] if node is not None]
    if any(node.name not in parameters or len(node.users) > 1 for node in used):
        return False  # computed weights, or weights that are used elsewhere
    for node in used:
        name = parameters[node.name]
        weights = exported.state_dict[name].detach()
        folded = (weights.double() / temperature).to(weights.dtype)
        exported.state_dict[name] = nn.Parameter(folded, requires_grad=False)
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress torch's messages about optional packages and its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def first_line(error: BaseException) -> str:
    """Return the first line of an error message that is not empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
