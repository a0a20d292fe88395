from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from singleshot.data.catalogue import PUBLICATIONS, DatasetLayout
from singleshot.data.fetching.check import check_dataset
from small_publications import cifar100_files, mnist_files, publish, tiny_imagenet_files, write

REAL = Path(os.environ.get("SINGLESHOT_TEST_DATA", ""))
needs_real_data = pytest.mark.skipif(
    not os.environ.get("SINGLESHOT_TEST_DATA"),
    reason="set SINGLESHOT_TEST_DATA to a folder filled by `singleshot data fetch` to test the real data sets",
)


@pytest.fixture
def cifar100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    publish(monkeypatch, "cifar100", [])
    write(tmp_path / "cifar-100-binary", cifar100_files())
    return tmp_path / "cifar-100-binary"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_complete_dataset(cifar100: Path) -> None:
    result = check_dataset("cifar100", cifar100.parent)
    assert result.is_complete
    assert (result.folder, result.layout) == (cifar100, "binary")
    assert sum(result.train.values()) == 200
    assert result.test == {f"class{number}": 1 for number in range(100)}
    assert json.loads(json.dumps(result.to_dict()))["complete"] is True


def test_faults_of_files(cifar100: Path) -> None:
    cases: list[tuple[Callable[[Path], None], str, str]] = [
        (truncate, "train.bin", "614,799 bytes, expected 614,800"),
        (flip, "test.bin", "checksum sha256:"),
        (Path.unlink, "train.bin", "missing"),
        (Path.unlink, "fine_label_names.txt", "missing"),
    ]
    for damage, name, fault in cases:
        content = (cifar100 / name).read_bytes()
        damage(cifar100 / name)
        result = check_dataset("cifar100", cifar100.parent)
        assert not result.is_ok
        assert result.folder == cifar100
        (wrong,) = (check for check in result.files if check.fault)
        assert wrong.path == cifar100 / name
        assert wrong.fault is not None
        assert wrong.fault.startswith(fault)
        assert fault == "missing" or "expected" in wrong.fault
        (cifar100 / name).write_bytes(content)


def test_fault_found_by_reading(cifar100: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cifar100 / "fine_label_names.txt").write_text("one name")
    published = PUBLICATIONS["cifar100"]
    known = tuple(replace(file, size=None, checksum=None) for file in published.layouts[0].files)
    changed = replace(published, layouts=(DatasetLayout("binary", known),))
    monkeypatch.setitem(PUBLICATIONS, "cifar100", changed)
    result = check_dataset("cifar100", cifar100.parent)
    assert not result.is_ok
    assert result.fault is not None
    assert "fine_label_names.txt" in result.fault


def test_dataset_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.data.locations.INSTALLED", {})  # whatever this system has
    for name in PUBLICATIONS:
        result = check_dataset(name, tmp_path)
        assert not result.is_ok
        assert result.folder is None
        assert tmp_path in result.looked_at[0].parents


def test_idx_files_are_identified_by_their_decompressed_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, "mnist", [])
    for form in ("gzipped", "plain", "mixed", "other compression level"):
        root = tmp_path / form
        for number, (name, packed) in enumerate(mnist_files().items()):
            content = gzip.decompress(packed)
            if form == "plain" or (form == "mixed" and number % 2):
                write(root / "mnist" / "raw", {name.removesuffix(".gz"): content})
            else:
                other = gzip.compress(content, compresslevel=1, mtime=1)
                write(root / "mnist" / "raw", {name: other if form == "other compression level" else packed})
        result = check_dataset("mnist", root)
        assert result.is_complete, result
        assert result.train == {str(digit): 3 for digit in range(10)}


def test_damaged_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, "mnist", [])
    files = mnist_files()
    name = "t10k-images-idx3-ubyte.gz"
    content = gzip.decompress(files[name])
    for damaged, fault in [
        (files[name][:-1], "cannot be decompressed"),
        (b"no gzip", "cannot be decompressed"),
        (gzip.compress(content[:-1]), "decompresses to 15,695 bytes, expected 15,696"),
        (gzip.compress(bytes(5_000_000), 1), "decompresses to more than the expected 15,696 bytes"),
        (gzip.compress(content[::-1]), "decompresses to checksum sha256:"),
    ]:
        write(tmp_path / "mnist", files | {name: damaged})
        result = check_dataset("mnist", tmp_path)
        assert {file.path.name: file.fault or "" for file in result.files}[name].startswith(fault)


def test_tiny_imagenet_subsets_and_unreadable_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, "tiny_imagenet", [])
    folder = tmp_path / "tiny-imagenet-200"
    write(folder, tiny_imagenet_files())
    whole = check_dataset("tiny_imagenet", tmp_path)
    assert whole.is_complete
    assert whole.train == {f"n{number:08}": 4 for number in range(3)}

    (folder / "train" / "n00000001" / "images" / "n00000001_0.JPEG").unlink()
    subset = check_dataset("tiny_imagenet", tmp_path)
    assert subset.is_ok
    assert not subset.is_complete
    assert subset.missing_images == ("11 of 12 training images",)
    assert subset.train["n00000001"] == 3

    (folder / "val" / "images" / "val_n00000002_1.JPEG").write_bytes(b"no image")
    counted: list[tuple[int, int | None]] = []
    broken = check_dataset("tiny_imagenet", tmp_path, on_progress=lambda done, total: counted.append((done, total)))
    assert not broken.is_ok
    assert len(broken.unreadable) == 1
    assert "val_n00000002_1.JPEG" in broken.unreadable[0]
    assert counted[-1] == (17, 17)


def test_folder_of_images(tmp_path: Path) -> None:
    images = [content for name, content in tiny_imagenet_files().items() if name.endswith("JPEG")]
    for part in ("train", "test"):
        write(tmp_path / "pets" / part, {"cat/1.jpg": images[0], "cat/2.jpg": images[1], "dog/1.jpg": images[2]})
    result = check_dataset(str(tmp_path / "pets"))
    assert result.is_complete
    assert (result.train, result.test) == ({"cat": 2, "dog": 1}, {"cat": 2, "dog": 1})
    (tmp_path / "pets" / "train" / "dog" / "2.jpg").write_bytes(images[0][:200])
    damaged = check_dataset(str(tmp_path / "pets"))
    assert not damaged.is_ok
    assert "2.jpg" in damaged.unreadable[0]
    shutil.rmtree(tmp_path / "pets" / "train" / "dog")
    assert "has only one class, 'cat'" in (check_dataset(str(tmp_path / "pets")).fault or "")


def test_digits_are_always_available(tmp_path: Path) -> None:
    result = check_dataset("digits", tmp_path)
    assert result.is_complete
    assert sum(result.train.values()) + sum(result.test.values()) == 1797


def test_unknown_name(tmp_path: Path) -> None:
    for name in ("cifar", "no/such/folder"):
        with pytest.raises(ValueError, match=r"cifar10|no/such/folder"):
            check_dataset(name, tmp_path)


@needs_real_data
def test_real_cifar100() -> None:
    result = check_dataset("cifar100", REAL)
    assert result.is_complete
    assert set(result.train.values()) == {500}
    assert set(result.test.values()) == {100}


@needs_real_data
@pytest.mark.parametrize(
    ("damage", "fault"),
    [(truncate, "30,739,999 bytes, expected 30,740,000"), (flip, "checksum sha256:")],
)
def test_damaged_real_cifar100(damage: Callable[[Path], None], fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "fine_label_names.txt"):
        (folder / name).symlink_to((REAL / "cifar-100-binary" / name).resolve())
    shutil.copy(REAL / "cifar-100-binary" / "test.bin", folder)
    damage(folder / "test.bin")
    faults = {file.path.name: file.fault for file in check_dataset("cifar100", tmp_path).files if file.fault}
    assert list(faults) == ["test.bin"]
    assert (faults["test.bin"] or "").startswith(fault)


@needs_real_data
def test_real_tiny_imagenet_is_a_subset() -> None:
    result = check_dataset("tiny_imagenet", REAL)
    assert result.is_ok
    found = sum(result.train.values())
    assert result.missing_images == ((f"{found:,} of 100,000 training images",) if found < 100_000 else ())
    assert len(result.train) == 200
    assert sum(result.test.values()) == 10_000
