"""Datasets of a few images in the layouts of their publishers, to be used in place of the published ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from singleshot.data.catalogue import PUBLICATIONS, DatasetLayout, KnownFile, Publication, RemoteFile

Files = dict[str, bytes]


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def cifar100_files(train: int = 200, test: int = 100) -> Files:
    """Records of the binary version, with balanced classes."""
    random = np.random.default_rng(0)
    files = {"fine_label_names.txt": "\n".join(f"class{number}" for number in range(100)).encode()}
    for name, count in (("train.bin", train), ("test.bin", test)):
        records = random.integers(0, 256, (count, 3074), np.uint8)
        records[:, 0], records[:, 1] = np.arange(count) % 20, np.arange(count) % 100
        files[name] = records.tobytes()
    return files


def mnist_files(train: int = 30, test: int = 20) -> Files:
    """The four idx files, gzipped."""
    random = np.random.default_rng(0)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        header = (2051).to_bytes(4, "big") + b"".join(number.to_bytes(4, "big") for number in (count, 28, 28))
        files[f"{part}-images-idx3-ubyte.gz"] = header + random.integers(0, 256, count * 784, np.uint8).tobytes()
        labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
        files[f"{part}-labels-idx1-ubyte.gz"] = (2049).to_bytes(4, "big") + count.to_bytes(4, "big") + labels
    return {name: gzip.compress(content, mtime=0) for name, content in files.items()}


def tiny_imagenet_files(classes: int = 3, train: int = 4, test: int = 2) -> Files:
    """JPEGs by class, and the list of those in ``val``."""
    random = np.random.default_rng(0)

    def jpeg() -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (64, 64, 3), np.uint8)).save(buffer, "JPEG")
        return buffer.getvalue()

    wnids = [f"n{number:08}" for number in range(classes)]
    files = {"wnids.txt": "\n".join(wnids).encode(), "words.txt": b""}
    annotations = []
    for wnid in wnids:
        for number in range(train):
            files[f"train/{wnid}/images/{wnid}_{number}.JPEG"] = jpeg()
        for number in range(test):
            files[f"val/images/val_{wnid}_{number}.JPEG"] = jpeg()
            annotations.append(f"val_{wnid}_{number}.JPEG\t{wnid}\t0\t0\t62\t62\n")
    return files | {"val/val_annotations.txt": "".join(annotations).encode()}


def tar_gz(folder: str, files: Files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(folder: str, files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{folder}/{name}", content)
    return buffer.getvalue()


def publish(monkeypatch: pytest.MonkeyPatch, name: str, urls: list[str]) -> Files:
    """Replace a published dataset by a small one at these URLs, and return the files to serve there."""
    published = PUBLICATIONS[name]
    if name == "cifar100":
        files = cifar100_files()
        served = {"cifar-100-binary.tar.gz": tar_gz(published.folders[0], files)}
        changed = _with_files(published, files, 200, 100)
    elif name == "mnist":
        served = mnist_files()
        unpacked = {name.removesuffix(".gz"): gzip.decompress(content) for name, content in served.items()}
        changed = _with_files(published, unpacked, 30, 20)
    else:
        served = {"tiny-imagenet-200.zip": zipped(published.folders[0], tiny_imagenet_files())}
        changed = replace(published, train_images=12, test_images=6)
    downloads = tuple(
        RemoteFile(file, tuple(f"{url}/{file}" for url in urls), len(content), sha256(content))
        for file, content in served.items()
    )
    monkeypatch.setitem(PUBLICATIONS, name, replace(changed, downloads=downloads))
    return served


def _with_files(published: Publication, files: Files, train: int, test: int) -> Publication:
    first, *others = published.layouts
    known = tuple(
        KnownFile(file.name, len(files[file.name]), sha256(files[file.name]), file.may_be_gzipped)
        for file in first.files
    )
    return replace(published, layouts=(DatasetLayout(first.name, known), *others), train_images=train, test_images=test)


def write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
