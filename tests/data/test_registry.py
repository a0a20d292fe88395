from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from singleshot.data import list_datasets, load_dataset, load_digits, split_digits


def test_listing_datasets_imports_no_slow_packages() -> None:
    script = "import sys\nfrom singleshot.data import list_datasets\nprint(*list_datasets())\nprint(*sys.modules)"
    names, loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert names.split() == ["cifar10", "cifar100", "digits", "fashion_mnist", "mnist", "tiny_imagenet"]
    assert not {"torch", "sklearn"} & set(loaded.split())


@pytest.mark.parametrize("size", [8, 32])
def test_digits_dataset_has_the_test_half_of_every_split(size: int, decoded: Path) -> None:
    dataset = load_dataset("digits", image_size=size)
    assert dataset.train.images.shape == (898, 1, size, size)
    assert dataset.test.images.shape == (899, 1, size, size)
    assert dataset.class_names == tuple("0123456789")
    split = split_digits(100, seed=3)
    assert torch.equal(dataset.test.labels, split.test.labels)
    if size == 8:
        assert torch.equal(dataset.test.images, split.test.images)
        both = torch.cat([dataset.train.images, dataset.test.images]).flatten(1).tolist()
        assert sorted(both) == sorted(load_digits().images.flatten(1).tolist())
    whole = dataset.train.images.double() / 255
    assert dataset.mean == pytest.approx([float(whole.mean())])
    assert dataset.std == pytest.approx([float(whole.std(correction=0))])
    assert not list(decoded.iterdir())


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"unknown dataset 'cifar-100'; did you mean 'cifar100'\? choose one of cifar10, "
    ):
        load_dataset("cifar-100")
    with pytest.raises(
        ValueError, match=r"unknown dataset 'zzz'; choose one of cifar10, .* or give a folder of images"
    ):
        load_dataset("zzz")


def test_dataset_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.data.locations.INSTALLED", {})
    monkeypatch.setenv("SINGLESHOT_DATA", str(tmp_path / "other"))
    for name in list_datasets():
        if name == "digits":
            continue
        with pytest.raises(ValueError, match=f"{name} not found in {tmp_path}/.*singleshot data fetch {name}"):
            load_dataset(name, data_root=tmp_path)
        with pytest.raises(ValueError, match=f"not found in {tmp_path}/other/"):
            load_dataset(name)


def test_invalid_image_size() -> None:
    for size, error in ((0, ValueError), (-1, ValueError), (True, TypeError), (2.5, TypeError)):
        with pytest.raises(error, match="image_size must be a whole number of at least 1"):
            load_dataset("digits", image_size=size)  # type: ignore[arg-type]
