from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from singleshot.data import Images, UnreadableImageError
from singleshot.data.augmentation import Normalization
from singleshot.metrics import Calibration
from singleshot.training import inference
from singleshot.training.checkpoint import TrainingState
from singleshot.training.distributed import Processes
from singleshot.training.inference import BATCH, evaluate, evaluation_mode, logits_of, predict
from singleshot.training.recipe import Recipe
from singleshot.training.run import Run, RunInfo

CLASSES = 5
NORMALIZATION = Normalization((0.4,), (0.3,))


class Network(nn.Module):
    """Contains dropout and batch norm, which differ in training mode."""

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


def test_logits_and_calibration_equal_those_of_a_single_batch() -> None:
    for count in (1, BATCH, 2 * BATCH + 3):
        network, images = Network(), part(count + 10)
        positions = torch.randperm(count + 10, generator=torch.Generator().manual_seed(2))[:count]
        with torch.no_grad():
            logits = network.eval()(NORMALIZATION(images.images[positions]))
        expected = Calibration(bins=20)
        expected.update(logits=logits, labels=images.labels[positions])
        network.train()
        found = evaluate(network, images, positions, NORMALIZATION, Processes())
        assert found is not None
        metrics = found.compute().metrics()
        assert found.compute().count == count
        assert metrics == pytest.approx(expected.compute().metrics(), abs=1e-6)
        assert all(math.isfinite(value) for value in metrics.values())
        found_logits, labels = logits_of(network, images, positions, NORMALIZATION)
        assert torch.allclose(found_logits, logits, atol=1e-6)
        assert torch.equal(labels, images.labels[positions])


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_network_unchanged(training: bool) -> None:
    network = Network().train(training)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    random_state = torch.get_rng_state()
    evaluate(network, part(20), torch.arange(20), NORMALIZATION, Processes())
    assert network.training is training
    assert all(layer.training is training for layer in network.layers)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled()


def test_the_mode_is_restored_after_an_error() -> None:
    network = Network().train()

    def fail() -> None:
        with evaluation_mode(network):
            assert not network.training
            raise OSError("a disk fails")

    with pytest.raises(OSError, match="a disk fails"):
        fail()
    assert network.training
    assert torch.is_grad_enabled()


def test_evaluation_stops_between_two_batches() -> None:
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


NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with random weights."""
    recipe = Recipe(dataset="photos", model="resnet18", width=0.03125, image_size=16).resolved()
    run = Run(tmp_path_factory.mktemp("runs") / "a", recipe, RunInfo(NAMES, 3, (0.5,) * 3, (0.2,) * 3, (2, 2), {}))
    run.create()
    torch.manual_seed(0)
    model = run.new_model()
    optimizer = torch.optim.SGD(model.parameters())
    run.checkpoints.save(model, optimizer, TrainingState(1, epochs_closed=0), recipe_hash=run.recipe_hash())
    return run.folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Seven images of the network's input size, and one that is resized."""
    generator = np.random.default_rng(0)
    for number in range(7):
        pixels = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    Image.new("L", (50, 30), 77).save(tmp_path / "grey.jpg")
    return tmp_path


def test_class_and_confidence_are_those_of_one_forward_pass(
    folder: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "BATCH", 3)  # several batches
    files = sorted(photos.glob("*.png"))
    found, unreadable = predict(folder, files, abstain_below=0.0)
    assert unreadable == []
    model = Run.open(folder).load_model()
    for file, one in zip(files, found, strict=True):
        pixels = np.asarray(Image.open(file), np.float32).transpose(2, 0, 1)
        with torch.no_grad():
            probs = model(torch.from_numpy((pixels / 255 - 0.5) / 0.2)[None]).double().softmax(1)[0]
        assert one.image == str(file)
        assert one.class_name == NAMES[int(probs.argmax())]
        assert one.confidence == pytest.approx(float(probs.max()), abs=1e-6)
        assert not one.abstained


def test_abstains_below_the_threshold(folder: Path, photos: Path) -> None:
    confidences = sorted(one.confidence for one in predict(folder, [photos])[0])
    threshold = confidences[3]
    found, _ = predict(folder, [photos], abstain_below=threshold)
    assert [one.abstained for one in found] == [one.confidence < threshold for one in found]
    assert sum(one.abstained for one in found) == 3  # a confidence equal to the threshold does not abstain


def test_folders_are_replaced_by_their_images_in_order(folder: Path, photos: Path) -> None:
    (photos / "notes.txt").write_text("no image")
    found, _ = predict(folder, [photos / "3.png", photos])
    assert [Path(one.image).name for one in found] == ["3.png", *(f"{n}.png" for n in range(7)), "grey.jpg"]
    assert all(0 < one.confidence <= 1 and math.isfinite(one.confidence) for one in found)


def test_unreadable_files_raise_or_are_left_out(folder: Path, photos: Path) -> None:
    (photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    files = [photos / "0.png", photos / "broken.png", photos / "absent.png", photos / "1.png"]
    with pytest.raises(UnreadableImageError, match=r"broken\.png .*; --skip-unreadable leaves it out"):
        predict(folder, files)
    found, unreadable = predict(folder, files, skip_unreadable=True)
    assert [Path(one.image).name for one in found] == ["0.png", "1.png"]
    assert ["broken.png" in unreadable[0], "absent.png" in unreadable[1]] == [True, True]
    assert predict(folder, files[1:3], skip_unreadable=True)[0] == []


def test_a_folder_without_images_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder without images"):
        predict(folder, [tmp_path])
