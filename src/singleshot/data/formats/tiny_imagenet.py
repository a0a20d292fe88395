"""Tiny ImageNet: 200 classes of 64×64 JPEGs. Its labelled ``val`` split is the test part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from singleshot.data.formats.folder import images_below
from singleshot.data.locations import candidate_folders
from singleshot.data.source import ImageFile, Source, first_complete, image_file_source


def tiny_imagenet_source(root: Path) -> Source:
    """Tiny ImageNet in a data root; any number of its classes and images."""
    folder = first_complete(_NAME, [(folder, ["wnids.txt"]) for folder in candidate_folders(_NAME, root)])
    wnids = _lines(folder / "wnids.txt")
    if len(wnids) < 2 or len(set(wnids)) != len(wnids):
        raise ValueError(
            f"{folder / 'wnids.txt'} lists {len(set(wnids))} different classes in {len(wnids)} lines; "
            "at least two are needed, each once"
        )
    _check_plain_names(folder / "wnids.txt", wnids)
    train = [ImageFile(path, label) for label, wnid in enumerate(wnids) for path in _images(folder / "train" / wnid)]
    lists = [folder / "wnids.txt", folder / "words.txt", folder / "val" / "val_annotations.txt"]
    return image_file_source(
        _NAME,
        folder,
        _class_names(folder, wnids),
        train,
        _test_files(folder, wnids),
        lists=[path for path in lists if path.is_file()],
    )


def _test_files(folder: Path, wnids: list[str]) -> list[ImageFile]:
    """As published, all in one folder with a list of their classes; or sorted into a folder per class."""
    labels = {wnid: label for label, wnid in enumerate(wnids)}
    annotations = folder / "val" / "val_annotations.txt"
    if not annotations.is_file():
        return [ImageFile(path, label) for wnid, label in labels.items() for path in _images(folder / "val" / wnid)]
    # Only files that a look into the folder shows can be meant: a name such as ../../x leads nowhere.
    there = {path.name: path for path in _images(folder / "val" / "images")}
    files = {}
    for number, line in enumerate(_lines(annotations), start=1):
        name, wnid = (*line.split("\t"), "", "")[:2]
        if name not in there or wnid not in labels:
            known = "is not in wnids.txt" if name in there else "is not in val/images"
            raise ValueError(f"{annotations}, line {number}: {(wnid if name in there else name)!r} {known}; {_AGAIN}")
        files[name] = ImageFile(there[name], labels[wnid])
    nameless = sorted(there.keys() - files.keys())
    if nameless:
        raise ValueError(f"{annotations} has no class for {len(nameless)} images, the first is {nameless[0]}; {_AGAIN}")
    return list(files.values())


def _class_names(folder: Path, wnids: list[str]) -> tuple[str, ...]:
    """The first word for each class; where two classes share it, with the identifier that tells them apart."""
    words = {}
    if (folder / "words.txt").is_file():
        for line in _lines(folder / "words.txt"):
            wnid, _, synonyms = line.partition("\t")
            words[wnid] = synonyms.split(",")[0].strip()
    names = [words.get(wnid) or wnid for wnid in wnids]
    shared = Counter(names)
    return tuple(f"{name} ({wnid})" if shared[name] > 1 else name for name, wnid in zip(names, wnids, strict=True))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _check_plain_names(path: Path, wnids: list[str]) -> None:
    for wnid in wnids:
        if not wnid.isalnum():  # it becomes a folder's name
            raise ValueError(f"{path} lists {wnid!r}, expected names such as n01443537; {_AGAIN}")


def _images(folder: Path) -> list[Path]:
    found = images_below(folder)
    if not found:
        raise ValueError(f"there are no images in {folder}; {_AGAIN}")
    return found


_NAME = "tiny_imagenet"
_AGAIN = "the data set is damaged or incomplete, singleshot data fetch tiny_imagenet gets it again"
