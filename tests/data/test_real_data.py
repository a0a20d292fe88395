"""The real CIFAR-100 and Tiny ImageNet, if $SINGLESHOT_TEST_DATA is set to a folder that contains them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.data import load_dataset
from singleshot.data.images import Dataset

ROOT = os.environ.get("SINGLESHOT_TEST_DATA")


@pytest.fixture(scope="module")
def root() -> Path:
    if not ROOT:
        pytest.skip("set SINGLESHOT_TEST_DATA to a folder filled by `singleshot data fetch` to test the real data sets")
    return Path(ROOT)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


def load(name: str, folder: str, root: Path, cache: Path) -> Dataset:
    if not (root / folder).is_dir():
        pytest.skip(f"run `singleshot data fetch {name} --data-root {root}` to test the real {name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SINGLESHOT_CACHE", str(cache))
        return load_dataset(name, data_root=root)


@pytest.fixture(scope="module")
def cifar100(root: Path, shared_cache: Path) -> Dataset:
    return load("cifar100", "cifar-100-binary", root, shared_cache)


@pytest.fixture(scope="module")
def tiny_imagenet(root: Path, shared_cache: Path) -> Dataset:
    return load("tiny_imagenet", "tiny-imagenet-200", root, shared_cache)


def test_cifar100_is_complete(cifar100: Dataset) -> None:
    assert cifar100.train.images.shape == (50_000, 3, 32, 32)
    assert cifar100.test.images.shape == (10_000, 3, 32, 32)
    assert cifar100.train.labels.bincount().tolist() == [500] * 100
    assert cifar100.test.labels.bincount().tolist() == [100] * 100
    assert cifar100.class_names[:3] == ("apple", "aquarium_fish", "baby")
    assert cifar100.class_names[-1] == "worm"
    assert [cifar100.class_names[label] for label in cifar100.train.labels[:3]] == ["cattle", "dinosaur", "apple"]
    assert cifar100.mean == pytest.approx((0.5071, 0.4865, 0.4409), abs=1e-4)
    assert cifar100.std == pytest.approx((0.2673, 0.2564, 0.2762), abs=1e-4)


def test_cifar100_has_the_bytes_of_its_files(cifar100: Dataset, root: Path) -> None:
    for part, file in ((cifar100.train, "train.bin"), (cifar100.test, "test.bin")):
        records = np.memmap(root / "cifar-100-binary" / file, np.uint8, "r").reshape(-1, 3074)
        for row in (0, 1234, len(records) - 1):
            assert part.labels[row] == records[row, 1]
            assert part.images[row].flatten().tolist() == records[row, 2:].tolist()


def test_cifar100_is_mapped_not_copied(cifar100: Dataset, root: Path, shared_cache: Path) -> None:
    """Each load has its own copy-on-write mapping."""
    again = load("cifar100", "cifar-100-binary", root, shared_cache)
    assert again.train.images.data_ptr() != cifar100.train.images.data_ptr()
    assert torch.equal(again.train.images[::1000], cifar100.train.images[::1000])


def test_tiny_imagenet_has_its_classes_and_images(tiny_imagenet: Dataset, root: Path) -> None:
    folder = root / "tiny-imagenet-200"
    wnids = (folder / "wnids.txt").read_text().split()
    counts = [len(list((folder / "train" / wnid / "images").glob("*.JPEG"))) for wnid in wnids]
    assert len(tiny_imagenet.class_names) == len(set(tiny_imagenet.class_names)) == 200
    assert tiny_imagenet.class_names[:3] == ("Egyptian cat", "reel", "volleyball")
    assert tiny_imagenet.train.labels.bincount().tolist() == counts
    assert tiny_imagenet.test.labels.bincount().tolist() == [50] * 200
    assert tiny_imagenet.train.images.shape[1:] == (3, 32, 32)
    assert tiny_imagenet.mean == pytest.approx((0.480, 0.448, 0.398), abs=0.01)


def test_tiny_imagenet_is_what_pillow_decodes(tiny_imagenet: Dataset, root: Path) -> None:
    folder = root / "tiny-imagenet-200"
    wnids = (folder / "wnids.txt").read_text().split()
    name, wnid = (folder / "val" / "val_annotations.txt").read_text().splitlines()[4321].split("\t")[:2]
    assert int(tiny_imagenet.test.labels[4321]) == wnids.index(wnid)
    with Image.open(folder / "val" / "images" / name) as image:
        expected = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BICUBIC))
    assert np.array_equal(tiny_imagenet.test.images[4321].permute(1, 2, 0).numpy(), expected)


def test_gray_jpegs_of_tiny_imagenet_have_three_equal_channels(tiny_imagenet: Dataset, root: Path) -> None:
    folder = root / "tiny-imagenet-200" / "val"
    names = [line.split("\t")[0] for line in (folder / "val_annotations.txt").read_text().splitlines()]
    gray = []
    for row, name in enumerate(names[:2000]):
        with Image.open(folder / "images" / name) as image:
            if image.mode == "L":
                gray.append(row)
    assert gray
    images = tiny_imagenet.test.images[gray]
    assert torch.equal(images[:, 0], images[:, 1])
    assert torch.equal(images[:, 0], images[:, 2])
    assert float(images.double().std()) > 30
