"""Networks by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from singleshot.common.checks import check_range
from singleshot.common.text import unknown_name
from singleshot.models.densenet import densenet40_12
from singleshot.models.resnet import resnet18, resnet34
from singleshot.models.small_cnn import SmallCNN
from singleshot.models.vgg import vgg16
from singleshot.models.wide_resnet import wide_resnet16_8

# Each constructor with the name of its noise option.
_NETWORKS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "densenet40_12": (densenet40_12, "dropout"),
    "resnet18": (resnet18, "survival"),
    "resnet34": (resnet34, "survival"),
    "small_cnn": (SmallCNN, "dropout"),
    "vgg16": (vgg16, "dropout"),
    "wide_resnet16_8": (wide_resnet16_8, "dropout"),
}


def create_model(
    name: str, num_classes: int, *, in_channels: int = 3, width: float = 1.0, noise: float | None = None
) -> nn.Module:
    """Create a network for 32×32 images with random weights; ResNets and the small CNN take other sizes, too.

    Args:
        name: one of :func:`list_models`.
        num_classes: number of outputs.
        in_channels: number of image channels.
        width: multiplies the channels of every layer; 0.25 gives a network for a laptop.
        noise: share of units dropped in VGG, WideResNet, DenseNet and the small CNN (``dropout``), or probability of
            dropping the last block of a ResNet (1 − ``survival``). 0 is no noise. Defaults: VGG and ResNet 0.5,
            WideResNet 0.3, DenseNet and the small CNN 0.2.

    >>> model = create_model("resnet18", num_classes=10, width=0.125)
    >>> model.blocks[-1].survival
    0.5
    """
    if name not in _NETWORKS:
        raise unknown_name("model", str(name), list_models())
    build, option = _NETWORKS[name]
    if noise is None:
        return build(num_classes, in_channels=in_channels, width=width)
    check_range("noise", noise, "[0, 1)")
    strength = {option: noise if option == "dropout" else 1 - noise}
    return build(num_classes, in_channels=in_channels, width=width, **strength)


def list_models() -> list[str]:
    """Return the names for :func:`create_model`.

    >>> list_models()
    ['densenet40_12', 'resnet18', 'resnet34', 'small_cnn', 'vgg16', 'wide_resnet16_8']
    """
    return sorted(_NETWORKS)
