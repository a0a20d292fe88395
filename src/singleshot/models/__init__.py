"""The networks of the paper and a small one, with noise layers, and a registry of them by name."""

from singleshot.models.densenet import DenseNet, densenet40_12
from singleshot.models.registry import create_model, list_models
from singleshot.models.resnet import ResNet, resnet18, resnet34
from singleshot.models.small_cnn import SmallCNN
from singleshot.models.vgg import VGG, vgg16
from singleshot.models.wide_resnet import WideResNet, wide_resnet16_8
from singleshot.sampling.stochastic_depth import StochasticDepthBlock

__all__ = [
    "VGG",
    "DenseNet",
    "ResNet",
    "SmallCNN",
    "StochasticDepthBlock",
    "WideResNet",
    "create_model",
    "densenet40_12",
    "list_models",
    "resnet18",
    "resnet34",
    "vgg16",
    "wide_resnet16_8",
]
