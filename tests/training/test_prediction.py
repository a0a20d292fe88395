from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.data import UnreadableImageError
from singleshot.training import inference as prediction
from singleshot.training.inference import predict
from singleshot.training.recipe import Recipe
from singleshot.training.run import Facts, Run

NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with weights as they are drawn: they know nothing, and say something."""
    recipe = Recipe(dataset="photos", model="resnet18", width=0.03125, image_size=16).resolved()
    run = Run(tmp_path_factory.mktemp("runs") / "a", recipe, Facts(NAMES, 3, (0.5,) * 3, (0.2,) * 3, (2, 2), {}))
    run.create()
    torch.manual_seed(0)
    model = run.new_model()
    state = {"recipe": run.recipe_hash(), "step": 1, "best": None}
    run.checkpoints.save(model, torch.optim.SGD(model.parameters()), state, keep=None)
    return run.folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Seven images of the network's own size, so that nothing is resized, and one of another."""
    generator = np.random.default_rng(0)
    for number in range(7):
        pixels = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    Image.new("L", (50, 30), 77).save(tmp_path / "grey.jpg")
    return tmp_path


def test_class_and_confidence_are_those_of_one_plain_pass(
    folder: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "BATCH", 3)  # so that there are several
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


def test_abstains_where_the_confidence_is_below_the_threshold_and_only_there(folder: Path, photos: Path) -> None:
    confidences = sorted(one.confidence for one in predict(folder, [photos])[0])
    threshold = confidences[3]
    found, _ = predict(folder, [photos], abstain_below=threshold)
    assert [one.abstained for one in found] == [one.confidence < threshold for one in found]
    assert sum(one.abstained for one in found) == 3  # one that is exactly there does not abstain


def test_folders_stand_for_the_images_in_them_in_the_order_they_were_named(folder: Path, photos: Path) -> None:
    (photos / "notes.txt").write_text("no image")
    found, _ = predict(folder, [photos / "3.png", photos])
    assert [Path(one.image).name for one in found] == ["3.png", *(f"{n}.png" for n in range(7)), "grey.jpg"]
    assert all(0 < one.confidence <= 1 and math.isfinite(one.confidence) for one in found)


def test_what_cannot_be_read_stops_or_is_counted(folder: Path, photos: Path) -> None:
    (photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    files = [photos / "0.png", photos / "broken.png", photos / "absent.png", photos / "1.png"]
    with pytest.raises(UnreadableImageError, match=r"broken\.png .*; --skip-unreadable goes on without it"):
        predict(folder, files)
    found, unreadable = predict(folder, files, skip_unreadable=True)
    assert [Path(one.image).name for one in found] == ["0.png", "1.png"]
    assert ["broken.png" in unreadable[0], "absent.png" in unreadable[1]] == [True, True]
    assert predict(folder, files[1:3], skip_unreadable=True)[0] == []


def test_a_folder_without_images_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder without images"):
        predict(folder, [tmp_path])
