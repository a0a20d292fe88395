"""Tiny ImageNet: 200 classes of 64×64 JPEGs. The labelled ``val`` split is the test set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from singleshot.common.text import shown
from singleshot.data.formats.folder import images_below
from singleshot.data.image_source import ImageSource, LabelledFile, image_file_source

MAX_NAME = 60  # characters of up to four bytes, of 255 that file systems allow
_DAMAGED = "the dataset is damaged or incomplete, download it again with: singleshot data fetch tiny_imagenet"


def tiny_imagenet_source(folder: Path) -> ImageSource:
    """Find the images of Tiny ImageNet. Subsets of its classes and images are accepted."""
    lists = [folder / "wnids.txt", folder / "words.txt", folder / "val" / "val_annotations.txt"]
    wnids = _lines(lists[0])
    if len(wnids) < 2 or len(set(wnids)) != len(wnids):
        raise ValueError(
            f"{lists[0]} has {len(set(wnids))} different classes in {len(wnids)} lines; "
            "at least two are needed, without duplicates"
        )
    for wnid in wnids:
        if not wnid.isalnum() or len(wnid) > MAX_NAME:  # it becomes a folder's name
            raise ValueError(f"{lists[0]} contains {shown(repr(wnid))}, expected names such as n01443537; {_DAMAGED}")
    train = [(path, label) for label, wnid in enumerate(wnids) for path in _images(folder / "train" / wnid)]
    return image_file_source(
        "tiny_imagenet",
        folder,
        _class_names(lists[1], wnids),
        train,
        _test_files(folder / "val", lists[2], wnids),
        lists=[path for path in lists if path.is_file()],
    )


def _test_files(folder: Path, annotations: Path, wnids: list[str]) -> list[LabelledFile]:
    """Find the test images: in one folder with a list of their classes, as published, or in a folder per class."""
    labels = {wnid: label for label, wnid in enumerate(wnids)}
    if not annotations.is_file():
        return [(path, label) for wnid, label in labels.items() for path in _images(folder / wnid)]
    # Only names found in the folder are accepted, so a name such as ../../x cannot escape from it.
    images = {path.name: path for path in _images(folder / "images")}
    files = {}
    for number, line in enumerate(_lines(annotations), start=1):
        name, wnid = (*line.split("\t"), "", "")[:2]
        if name not in images:
            raise ValueError(f"{annotations}, line {number}: {name!r} is not in val/images; {_DAMAGED}")
        if wnid not in labels:
            raise ValueError(f"{annotations}, line {number}: {wnid!r} is not in wnids.txt; {_DAMAGED}")
        files[name] = (images[name], labels[wnid])
    unlabelled = sorted(images.keys() - files.keys())
    if unlabelled:
        raise ValueError(
            f"{annotations} has no class for {len(unlabelled)} images, the first is {unlabelled[0]}; {_DAMAGED}"
        )
    return list(files.values())


def _class_names(words_path: Path, wnids: list[str]) -> tuple[str, ...]:
    """Return the first word of each class, followed by the WordNet ID if several classes share the word."""
    words = {}
    if words_path.is_file():
        for line in _lines(words_path):
            wnid, _, synonyms = line.partition("\t")
            words[wnid] = synonyms.split(",")[0].strip()
    names = [words.get(wnid) or wnid for wnid in wnids]
    shared = Counter(names)
    return tuple(f"{name} ({wnid})" if shared[name] > 1 else name for name, wnid in zip(names, wnids, strict=True))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _images(folder: Path) -> list[Path]:
    found = images_below(folder)
    if not found:
        raise ValueError(f"no images in {folder}; {_DAMAGED}")
    return found
