"""A classifier as a traced program: pixels in, logits and probabilities out, nothing random, the temperature inside.

The graph says what a list of layers cannot: which linear layer makes the logits, whether its weights are used anywhere
else, and whether a random number is still drawn.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from singleshot.common.checks import check_scores
from singleshot.data.augmentation import Normalization


class Classifier(nn.Module):
    """Inputs as they come, to the logits and the probabilities of a model.

    Args:
        model: inputs to logits; it is copied, in evaluation mode, to float32 and the CPU.
        mean: of each channel of pixels in [0, 1]; with it the inputs are pixels in [0, 255], and
            (x / 255 − mean) / std is what the model sees. Without it the model sees the inputs as they are.
        std: of each channel.
        temperature: what the logits are divided by.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        temperature: float | None = None,
    ) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().float()
        self.normalizes = mean is not None and std is not None
        if mean is not None and std is not None:
            normalization = Normalization(tuple(mean), tuple(std))
            self.register_buffer("scale", normalization.scale)
            self.register_buffer("shift", normalization.shift)
        self.temperature = temperature
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (N, ...) to logits and probabilities, both (N, C)."""
        logits = self.plain_logits(images)
        if self.temperature is not None:
            logits = logits / self.temperature
        return logits, torch.softmax(logits, 1)

    def plain_logits(self, images: Tensor) -> Tensor:
        """What the model itself gives, before the temperature."""
        logits: Tensor = self.model(images.float() * self.scale + self.shift if self.normalizes else images)
        return logits


@dataclass(frozen=True)
class Program:
    """What was traced, and whether a temperature is in its last layer's weights or a division of its own."""

    exported: torch.export.ExportedProgram
    temperature_folded: bool


def trace(classifier: Classifier, example: Tensor) -> Program:
    """The program of a classifier for any batch size, from an example with at least two rows.

    A temperature goes into weights and bias of the last layer, where that is a linear layer used for nothing else: the
    program then costs what it did without. Elsewhere the logits are divided by it.
    """
    if classifier.temperature is not None:
        plain = copy.copy(classifier)  # shares the weights, which are replaced and never written to
        plain.temperature = None
        exported = _traced(plain, example)
        if _fold_temperature(exported, classifier.temperature):
            return Program(exported, temperature_folded=True)
    return Program(_traced(classifier, example), temperature_folded=False)


def check_classifier(classifier: Classifier, example: Tensor) -> int:
    """The number of classes, or an error where the model does not map such an example to logits (N, C)."""
    try:
        with torch.no_grad():
            logits = classifier.plain_logits(example)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the model cannot be run on an example of shape {tuple(example.shape)} and {example.dtype}: "
            f"{first_line(error)}"
        ) from error
    check_scores(logits, ("(N, C)",), name="the model's output")
    if len(logits) != len(example):
        raise ValueError(f"the model must give one row of logits per input: {len(example)} gave {len(logits)}")
    return int(logits.shape[1])


def _traced(classifier: Classifier, example: Tensor) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the tracer warns of its own deprecations
            batch = torch.export.Dim("batch")
            exported = torch.export.export(classifier, (example,), dynamic_shapes=({0: batch},), strict=False)
    except Exception as error:  # whatever a tracer may raise over code that it cannot follow
        raise ValueError(f"torch.export cannot trace the model for any batch size: {first_line(error)}") from error
    _remove_resting_noise(exported.graph_module)
    _refuse_randomness(exported.graph_module)
    return exported


def _remove_resting_noise(module: torch.fx.GraphModule) -> None:
    """A dropout in evaluation form does nothing, so nothing is what takes its place."""
    aten = torch.ops.aten
    names = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    dropouts = {getattr(aten, name).default for name in names}  # each called with (input, p, train)
    for node in list(module.graph.nodes):
        if node.target in dropouts and node.args[2] is False:
            if any(user.op == "output" for user in node.users):
                node.target, node.args = aten.clone.default, node.args[:1]  # the signature knows outputs by name
                continue
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    for node in module.graph.nodes:
        node.meta.pop("stack_trace", None)  # it would put paths and source lines of this machine into the file
    module.recompile()


def _refuse_randomness(module: torch.fx.GraphModule) -> None:
    for node in module.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise ValueError(
                f"the model draws random numbers in evaluation mode ({node.target}), so that no file could agree with "
                "it; make the noise depend on self.training: F.dropout(x, p, training=self.training)"
            )


def _fold_temperature(exported: torch.export.ExportedProgram, temperature: float) -> bool:
    """Divide the last layer's weights and bias; False, and nothing is changed, where there is no such layer."""
    output = next(node for node in exported.graph.nodes if node.op == "output")
    layer = output.args[0][0]
    if layer.target is not torch.ops.aten.linear.default:
        return False
    parameters = exported.graph_signature.inputs_to_parameters
    used = [node for node in layer.args[1:] if node is not None]
    if any(node.name not in parameters or len(node.users) > 1 for node in used):
        return False  # computed weights, or weights that something else needs as they are
    for node in used:
        name = parameters[node.name]
        weights = exported.state_dict[name].detach()
        folded = (weights.double() / temperature).to(weights.dtype)
        exported.state_dict[name] = nn.Parameter(folded, requires_grad=False)
    return True


def first_line(error: BaseException) -> str:
    """What an error says before it goes on about the machinery it comes from."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
