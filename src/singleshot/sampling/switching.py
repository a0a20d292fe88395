"""Switching on a model's noise, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from singleshot.sampling.graph import NoiseGraph, argument, trace
from singleshot.sampling.noise import FUNCTIONAL_NOISE, noise_is_on, noise_layers, noise_on, noise_rate
from singleshot.sampling.tracing import NotTraceableError

ADVICE = (
    "add a noise layer such as nn.Dropout(0.2) before a fully connected layer, or stochastic depth around its residual "
    "blocks, and train with it"
)


@contextmanager
def stochastic(model: nn.Module) -> Iterator[None]:
    """Within it, the model's noise is on and everything else is as it was: batch norm in evaluation mode stays there.

    Functional dropout (``F.dropout(x, p, self.training)``) in the model's own forward is switched on too, and a layer
    of your own that has an attribute ``is_noise = True``. Modes are restored on every exit. Not for use by several
    threads on one model.

    >>> model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).eval()
    >>> with stochastic(model):
    ...     print(model[0].training, model[1].training)
    False True
    >>> model[1].training
    False
    """
    with noise_on(model):
        require_noise(model, graph_or_none(model))
        yield


def require_noise(model: nn.Module, graph: NoiseGraph | None) -> None:
    """Refuse a model all of whose passes are the same, or that drops everything.

    A model without noise layers may have noise in its own code: its graph shows it, and where there is no graph the
    model has the benefit of the doubt.
    """
    name = type(model).__name__
    for layer_name, layer in noise_layers(model).items():
        if noise_rate(layer) >= 1:
            raise ValueError(f"noise layer {layer_name!r} of {name} has rate 1, which drops everything; take less")
    for node in graph.draws if graph is not None else ():
        if node.target in FUNCTIONAL_NOISE and argument(node, 1, "p", 0.5) == 1:
            raise ValueError(f"{node.name} in the forward of {name} has rate 1, which drops everything; take less")
    if noise_is_on(model) or (graph is not None and graph.draws) or (graph is None and not noise_layers(model)):
        return
    if noise_layers(model):
        raise ValueError(
            f"all noise layers of {name} are in evaluation mode, in a model in training mode: train() them"
        )
    silent = [part for part in model.modules() if isinstance(part, nn.modules.dropout._DropoutNd)]
    why = f" (its {type(silent[0]).__name__} has rate 0)" if silent else ""
    raise ValueError(f"{name} has no noise{why}: every pass would be the same. To sample it, {ADVICE}.")


def graph_or_none(model: nn.Module) -> NoiseGraph | None:
    """The model's noise graph, if it has one."""
    try:
        return trace(model)
    except NotTraceableError:
        return None
