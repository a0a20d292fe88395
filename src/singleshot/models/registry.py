"""The networks by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from torch import nn

from singleshot.models.densenet import densenet40_12
from singleshot.models.resnet import resnet18, resnet34
from singleshot.models.vgg import vgg16
from singleshot.models.wide_resnet import wide_resnet16_8

# Each network with its own name for the strength of its noise.
_NETWORKS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "densenet40_12": (densenet40_12, "dropout"),
    "resnet18": (resnet18, "survival"),
    "resnet34": (resnet34, "survival"),
    "vgg16": (vgg16, "dropout"),
    "wide_resnet16_8": (wide_resnet16_8, "dropout"),
}


def create_model(
    name: str, num_classes: int, *, in_channels: int = 3, width: float = 1.0, noise: float | None = None
) -> nn.Module:
    """A new network for 32×32 images, freshly initialized.

    Args:
        name: one of :func:`list_models`.
        num_classes: outputs.
        in_channels: channels of the images.
        width: multiplies the channels of every layer; 0.25 makes a network for a laptop.
        noise: the share that is dropped: of the units for VGG, WideResNet and DenseNet (their ``dropout``), of the
            passes through the last block for the ResNets (1 − ``survival``). 0 is no noise; None takes the paper's
            value: 0.5, 0.3, 0.2 and 0.5.

    >>> model = create_model("resnet18", num_classes=10, width=0.125)
    >>> model.blocks[-1].survival
    0.5
    """
    if name not in _NETWORKS:
        nearest = difflib.get_close_matches(str(name).lower(), list_models(), n=1)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ValueError(f"name={name!r} is no model; {hint}choose one of {', '.join(list_models())}")
    if noise is not None and not 0 <= noise < 1:
        raise ValueError(f"noise must lie in [0, 1), the share that is dropped, got {noise!r}; 0 drops nothing")
    build, dropped_by = _NETWORKS[name]
    options: dict[str, float] = {}
    if noise is not None:
        options[dropped_by] = noise if dropped_by == "dropout" else 1 - noise
    return build(num_classes, in_channels=in_channels, width=width, **options)


def list_models() -> list[str]:
    """The names that :func:`create_model` knows.

    >>> list_models()
    ['densenet40_12', 'resnet18', 'resnet34', 'vgg16', 'wide_resnet16_8']
    """
    return sorted(_NETWORKS)
