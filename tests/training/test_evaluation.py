from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from singleshot.data import Images
from singleshot.data.augmentation import Normalization
from singleshot.metrics import Calibration
from singleshot.training.inference import BATCH, evaluate, quiet
from singleshot.training.processes import Processes

CLASSES = 5
NORMALIZATION = Normalization((0.4,), (0.3,))


class Network(nn.Module):
    """Has all that a careless evaluation would disturb: dropout, batch norm, gradients."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES)
        )
        self.batches: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        self.batches.append(len(images))
        logits: Tensor = 3 * self.layers(images)
        return logits


def part(count: int) -> Images:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, 1, 4, 4), generator=generator, dtype=torch.uint8)
    return Images(images, torch.randint(0, CLASSES, (count,), generator=generator))


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, 2 * BATCH + 3])
def test_equals_the_calibration_of_all_logits_at_once(count: int) -> None:
    network, images = Network(), part(count + 10)
    positions = torch.randperm(count + 10, generator=torch.Generator().manual_seed(2))[:count]
    with torch.no_grad():
        logits = network.eval()(NORMALIZATION(images.images[positions]))
    expected = Calibration(bins=20)
    expected.update(logits=logits, labels=images.labels[positions])
    kept: list[tuple[Tensor, Tensor]] = []
    network.train()
    found = evaluate(network, images, positions, NORMALIZATION, Processes(), on_logits=lambda *both: kept.append(both))
    assert found is not None
    metrics = found.compute().metrics()
    assert found.compute().count == count
    assert metrics == pytest.approx(expected.compute().metrics(), abs=1e-6)
    assert all(math.isfinite(value) for value in metrics.values())
    assert torch.allclose(torch.cat([part_logits for part_logits, _ in kept]), logits, atol=1e-6)
    assert torch.equal(torch.cat([labels for _, labels in kept]), images.labels[positions])


@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_network_as_it_was(training: bool) -> None:
    network = Network().train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    random_state = torch.get_rng_state()
    evaluate(network, part(20), torch.arange(20), NORMALIZATION, Processes())
    assert network.training is training
    assert all(layer.training is training for layer in network.layers)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled()


def test_the_mode_comes_back_after_an_error_too() -> None:
    network = Network().train()

    def fail() -> None:
        with quiet(network):
            assert not network.training
            raise OSError("a disk fails")

    with pytest.raises(OSError, match="a disk fails"):
        fail()
    assert network.training
    assert torch.is_grad_enabled()


def test_stops_between_two_batches_when_asked() -> None:
    network, answers = Network().train(), iter([False, True])
    found = evaluate(
        network,
        part(3 * BATCH),
        torch.arange(3 * BATCH),
        NORMALIZATION,
        Processes(),
        should_stop=lambda: next(answers),
    )
    assert found is None
    assert network.batches == [BATCH]
    assert network.training
