from __future__ import annotations

import pytest
import torch
from torch import nn

from singleshot.models import ResNet, StochasticDepthBlock, create_model, list_models
from singleshot.sampling import noise_layers


def test_the_list_is_sorted_and_a_copy() -> None:
    assert list_models() == ["densenet40_12", "resnet18", "resnet34", "vgg16", "wide_resnet16_8"]
    list_models().clear()
    assert list_models()


@pytest.mark.parametrize("name", list_models())
def test_every_listed_name_builds(name: str) -> None:
    network = create_model(name, num_classes=7, in_channels=1, width=0.125)
    assert network(torch.randn(2, 1, 32, 32)).shape == (2, 7)


def test_the_name_chooses_the_network() -> None:
    with torch.device("meta"):
        shallow, deep = create_model("resnet18", 10), create_model("resnet34", 10)
    assert isinstance(shallow, ResNet)
    assert isinstance(deep, ResNet)
    assert (len(shallow.blocks), len(deep.blocks)) == (8, 16)


@pytest.mark.parametrize("name", list_models())
@pytest.mark.parametrize("noise", [None, 0.25])
def test_noise_is_the_share_that_is_dropped(name: str, noise: float | None) -> None:
    with torch.device("meta"):
        network = create_model(name, 10, noise=noise)
    defaults = {"vgg16": 0.5, "wide_resnet16_8": 0.3, "densenet40_12": 0.2, "resnet18": 0.5, "resnet34": 0.5}
    expected = defaults[name] if noise is None else noise
    rates = {module.p for module in network.modules() if isinstance(module, nn.Dropout)}
    survivals = [module.survival for module in network.modules() if isinstance(module, StochasticDepthBlock)]
    assert rates == (set() if survivals else {expected})
    assert bool(survivals) == name.startswith("resnet")
    assert min(survivals, default=1 - expected) == 1 - expected


@pytest.mark.parametrize("name", list_models())
def test_no_noise_is_zero_and_all_of_it_is_refused(name: str) -> None:
    network = create_model(name, 10, width=0.125, noise=0.0)
    assert not noise_layers(network)
    for noise in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"noise must lie in \[0, 1\)"):
            create_model(name, 10, noise=noise)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("resnet43", "resnet34"), ("ResNet-18", "resnet18"), ("VGG", "vgg16"), ("wideresnet", "wide_resnet16_8")],
)
def test_an_unknown_name_suggests_the_nearest_and_lists_all(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown model '{name}'; did you mean '{nearest}'") as error:
        create_model(name, 10)
    assert all(known in str(error.value) for known in list_models())


def test_a_name_like_no_other_gets_the_list_alone() -> None:
    with pytest.raises(ValueError, match="unknown model 'transformer'; choose one of densenet40_12, resnet18"):
        create_model("transformer", 10)
