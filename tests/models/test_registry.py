from __future__ import annotations

import pytest
import torch
from torch import nn

from singleshot.models import ResNet, StochasticDepthBlock, create_model, list_models
from singleshot.sampling import noise_layers


def test_the_list_is_sorted_and_a_copy() -> None:
    assert list_models() == ["densenet40_12", "resnet18", "resnet34", "small_cnn", "vgg16", "wide_resnet16_8"]
    list_models().clear()
    assert list_models()


def test_create_model_builds_the_named_network() -> None:
    with torch.device("meta"):
        shallow, deep = create_model("resnet18", 10), create_model("resnet34", 10)
    assert isinstance(shallow, ResNet)
    assert isinstance(deep, ResNet)
    assert (len(shallow.blocks), len(deep.blocks)) == (8, 16)


@pytest.mark.parametrize("name", list_models())
def test_every_name_builds_and_noise_is_the_share_that_is_dropped(name: str) -> None:
    network = create_model(name, num_classes=7, in_channels=1, width=0.125, noise=0.0)
    assert network(torch.randn(2, 1, 32, 32)).shape == (2, 7)
    assert not noise_layers(network)
    for invalid in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"noise must lie in \[0, 1\)"):
            create_model(name, 10, noise=invalid)
    defaults = {
        "vgg16": 0.5,
        "wide_resnet16_8": 0.3,
        "densenet40_12": 0.2,
        "resnet18": 0.5,
        "resnet34": 0.5,
        "small_cnn": 0.2,
    }
    for noise in (None, 0.25):
        with torch.device("meta"):
            network = create_model(name, 10, noise=noise)
        expected = defaults[name] if noise is None else noise
        rates = {module.p for module in network.modules() if isinstance(module, nn.Dropout)}
        survivals = [module.survival for module in network.modules() if isinstance(module, StochasticDepthBlock)]
        assert rates == (set() if survivals else {expected})
        assert bool(survivals) == name.startswith("resnet")
        assert min(survivals, default=1 - expected) == 1 - expected


def test_an_unknown_name_suggests_the_nearest_and_lists_all() -> None:
    nearest = {"resnet43": "resnet34", "ResNet-18": "resnet18", "VGG": "vgg16", "wideresnet": "wide_resnet16_8"}
    for name, suggestion in nearest.items():
        with pytest.raises(ValueError, match=f"unknown model '{name}'; did you mean '{suggestion}'") as error:
            create_model(name, 10)
        assert all(known in str(error.value) for known in list_models())
    with pytest.raises(ValueError, match="unknown model 'transformer'; choose one of densenet40_12, resnet18"):
        create_model("transformer", 10)
