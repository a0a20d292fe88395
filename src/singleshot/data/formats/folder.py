"""A folder of images with a subfolder for each class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from singleshot.common.text import listed
from singleshot.data.decoding import EXTENSIONS
from singleshot.data.image_source import ImageSource, LabelledFile, image_file_source

TEST_FOLDERS = ("test", "val", "validation")
TEST_FRACTION = 1 / 5  # of each class, if the folder has no test split

ClassFiles = dict[str, list[Path]]
Visited = dict[tuple[int, int], Path]
"""The folders that were found, by device and inode."""

_EXPECTED = (
    "expected FOLDER/CLASS/IMAGE, or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE, with two or more classes"
)


def folder_source(root: Path) -> ImageSource:
    """Find the images of a folder, to be decoded as RGB.

    The layout is either ROOT/train/CLASS/... and ROOT/test/CLASS/... (or ``val``, ``validation``), or ROOT/CLASS/...,
    where a fixed fifth of each class becomes the test set.
    """
    if not root.is_dir():
        raise ValueError(f"folder {root} does not exist; expected a folder with a subfolder of images for each class")
    folders = _subfolders(root)
    # A class may be named train, as in a dataset of vehicles; together with a test folder it is a split.
    if "train" in folders and (len(folders) == 1 or not set(TEST_FOLDERS).isdisjoint(folders)):
        train, test = _read_splits(root, folders)
    else:
        train, test = _split(_read_classes(root, {}), root)
    names = tuple(train)
    return image_file_source(root.resolve().name, root, names, _labelled(train, names), _labelled(test, names))


def images_below(folder: Path, visited: Visited | None = None) -> list[Path]:
    """Return all images in a folder and its subfolders, sorted. Hidden files are skipped and links are followed.

    Links to nothing with the ending of an image are returned as well, to be reported as unreadable. A folder that an
    earlier call with the same ``visited`` has found is an error: its images would be counted twice.
    """
    images: list[Path] = []
    seen: Visited = {}
    pending = [folder] if folder.is_dir() else []
    while pending:
        current = pending.pop()
        status = current.stat()
        place = status.st_dev, status.st_ino
        if place in seen:  # several links to one folder, or a cycle
            continue
        if visited is not None and place in visited:
            raise ValueError(
                f"{current} and {visited[place]} are the same folder, whose images would be counted twice; remove the "
                "link"
            )
        seen[place] = current
        names, folders = [], []
        with os.scandir(current) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if _holds(entry.is_dir):
                    folders.append(entry.name)
                elif os.path.splitext(entry.name)[1].lower() in EXTENSIONS:  # noqa: PTH122
                    names.append(entry.name)
                else:
                    _check_link(entry)
        images += [current / name for name in sorted(names)]
        pending += [current / name for name in sorted(folders, reverse=True)]
    if visited is not None:
        visited |= seen
    return images


def _read_splits(root: Path, folders: list[str]) -> tuple[ClassFiles, ClassFiles]:
    tests = [root / name for name in TEST_FOLDERS if name in folders and _subfolders(root / name)]
    if not tests:
        raise ValueError(
            f"{root} has a folder train, but none of {', '.join(TEST_FOLDERS)} with a subfolder for each class; "
            f"add one, or use {root / 'train'} to split off a fifth of it for testing"
        )
    visited: Visited = {}
    train, test = _read_classes(root / "train", visited), _read_classes(tests[0], visited, min_classes=1)
    unknown = sorted(test.keys() - train.keys())
    if unknown:
        raise ValueError(f"{tests[0]} has class {unknown[0]!r}, which is not in {root / 'train'}")
    return train, test


def _read_classes(folder: Path, visited: Visited, min_classes: int = 2) -> ClassFiles:
    """Return the images of each class. Raise an error if a class is empty or if there are too few classes."""
    classes = {name: images_below(folder / name, visited) for name in _subfolders(folder)}
    empty = [name for name, images in classes.items() if not images]
    if len(empty) == len(classes):
        found = f"only the empty folders {listed(empty, 5)}" if empty else "no subfolders"
        raise ValueError(f"{folder} has no images in class folders (found {found}); {_EXPECTED}")
    if len(classes) < min_classes:
        raise ValueError(f"{folder} has only one class, {next(iter(classes))!r}; {_EXPECTED}")
    if empty:
        raise ValueError(f"{folder} has no images for class {listed(empty, 5)}; remove the folder or add images")
    return classes


def _split(classes: ClassFiles, root: Path) -> tuple[ClassFiles, ClassFiles]:
    """Split each class by a hash of the file names, so that the split is the same on every machine."""
    train, test = {}, {}
    for name, images in classes.items():
        if len(images) < 2:
            raise ValueError(f"{root / name} has only one image; at least two are needed, one of them for testing")
        hashes = {path: hashlib.sha256(os.fsencode(path.relative_to(root).as_posix())).digest() for path in images}
        shuffled = sorted(images, key=hashes.__getitem__)
        held_out = set(shuffled[: max(1, round(len(images) * TEST_FRACTION))])
        train[name] = [path for path in images if path not in held_out]
        test[name] = [path for path in images if path in held_out]
    return train, test


def _labelled(classes: ClassFiles, names: tuple[str, ...]) -> list[LabelledFile]:
    return [(path, label) for label, name in enumerate(names) for path in classes.get(name, ())]


def _subfolders(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        entries = [entry for entry in found if not entry.name.startswith(".")]
    for entry in entries:
        _check_link(entry)
    return sorted(entry.name for entry in entries if _holds(entry.is_dir))


def _check_link(entry: os.DirEntry[str]) -> None:
    """Raise for a link to nothing, which may have been a folder of images."""
    if entry.is_symlink() and not Path(entry.path).exists():
        raise ValueError(f"{entry.path} is a link to something that does not exist; restore it, or remove the link")


def _holds(test: Callable[[], bool]) -> bool:
    try:
        return test()
    except OSError:  # a link to itself is neither a file nor a folder
        return False
