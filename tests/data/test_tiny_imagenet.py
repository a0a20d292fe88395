from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from singleshot.data import load_dataset
from singleshot.data.registry import find_source

WNIDS = ["n03", "n01", "n02"]  # not in alphabetical order, as in the real list
COLOURS = {"n01": (250, 10, 10), "n02": (10, 250, 10), "n03": (10, 10, 250)}
WORDS = "n00\tentity\nn01\tcrane, wading bird\nn02\tcrane, derrick\nn03\tEgyptian cat\n"


def jpeg(path: Path, wnid: str, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 64), COLOURS[wnid]).convert(mode).save(path, "JPEG", quality=95)


def write(root: Path, *, sort_val: bool = False) -> Path:
    """Three training images and two test images of each class."""
    folder = root / "tiny-imagenet-200"
    folder.mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (folder / "words.txt").write_text(WORDS)
    lines = []
    for wnid in WNIDS:
        for number in range(3):
            jpeg(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", wnid)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text(f"{wnid}_0.JPEG\t0\t0\t63\t63\n")
    for number in range(6):
        wnid = sorted(WNIDS)[number % 3]
        name = f"val_{number}.JPEG"
        jpeg(folder / "val" / (wnid if sort_val else "images") / name, wnid)
        lines.append(f"{name}\t{wnid}\t0\t0\t63\t63\n")
    if not sort_val:
        (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("sort_val", [False, True])
def test_classes_from_folders_and_annotations(tmp_path: Path, sort_val: bool) -> None:
    write(tmp_path, sort_val=sort_val)
    dataset = load_dataset("tiny_imagenet", data_root=tmp_path, image_size=32)
    assert dataset.class_names == ("Egyptian cat", "crane (n01)", "crane (n02)")
    assert (len(dataset.train), len(dataset.test)) == (9, 6)
    for part in (dataset.train, dataset.test):
        assert part.images.shape[1:] == (3, 32, 32)
        for image, label in zip(part.images, part.labels, strict=True):
            expected = COLOURS[WNIDS[int(label)]]
            np.testing.assert_allclose(image.double().mean((1, 2)).tolist(), expected, atol=4)


def test_gray_and_cmyk_are_converted(tmp_path: Path) -> None:
    folder = write(tmp_path)
    images = folder / "train" / "n03" / "images"
    jpeg(images / "n03_0.JPEG", "n03", "L")
    jpeg(images / "n03_1.JPEG", "n03", "CMYK")
    gray, cmyk = (
        load_dataset("tiny_imagenet", data_root=tmp_path, image_size=32).train.images[:2].double().mean((2, 3)).tolist()
    )
    assert gray[0] == gray[1] == gray[2]
    np.testing.assert_allclose(cmyk, COLOURS["n03"], atol=6)


def test_changed_annotations_are_noticed(tmp_path: Path) -> None:
    annotations = write(tmp_path) / "val" / "val_annotations.txt"
    before = load_dataset("tiny_imagenet", data_root=tmp_path, image_size=8).test.labels.tolist()
    annotations.write_text(annotations.read_text().replace("val_0.JPEG\tn01", "val_0.JPEG\tn03") + "\n")
    after = load_dataset("tiny_imagenet", data_root=tmp_path, image_size=8).test.labels.tolist()
    assert before == [1, 2, 0, 1, 2, 0]
    assert after == [0, 2, 0, 1, 2, 0]


def remove(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.unlink()

    return damage


def append(file: str, text: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with (folder / file).open("a") as opened:
            opened.write(text)

    return damage


ANNOTATIONS = "val/val_annotations.txt"


def test_damage_is_reported(tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Path], None], str]] = [
        (remove("wnids.txt"), "dataset tiny_imagenet not found in .*tiny-imagenet-200.* data fetch"),
        (append("wnids.txt", "n01\n"), "has 3 different classes in 4 lines"),
        (append("wnids.txt", "../n04\n"), r"wnids.txt contains '../n04'"),
        (append("wnids.txt", 40 * "n00000001" + "\n"), r"wnids.txt contains 'n00000001n.*…, expected names"),
        (append("wnids.txt", "n04\n"), r"no images in .*train/n04"),
        (remove("train/n02/images/*"), "no images in .*train/n02"),
        (remove("val/images/*"), "no images in .*val/images"),
        (remove(ANNOTATIONS), "no images in .*val/n03"),
        (append(ANNOTATIONS, "val_9.JPEG\tn01\t0\t0\t1\t1\n"), "line 7: 'val_9.JPEG' is not in val/images"),
        (append(ANNOTATIONS, "../../wnids.txt\tn01\n"), "line 7: '../../wnids.txt' is not in val/images"),
        (append(ANNOTATIONS, "val_0.JPEG\tn99\n"), "line 7: 'n99' is not in wnids.txt"),
        (append(ANNOTATIONS, "val_0.JPEG\n"), "line 7: '' is not in wnids.txt"),
        (lambda folder: jpeg(folder / "val" / "images" / "extra.JPEG", "n01"), "no class for 1 images.* extra.JPEG"),
    ]
    for number, (damage, message) in enumerate(cases):
        damage(write(tmp_path / str(number)))
        with pytest.raises(ValueError, match=message):
            find_source("tiny_imagenet", tmp_path / str(number))
