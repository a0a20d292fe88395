"""Any folder of images, sorted into one folder per class."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from singleshot.data.decoding import EXTENSIONS
from singleshot.data.source import ImageFile, Source, image_file_source

TEST_FOLDERS = ("test", "val", "validation")
TEST_SHARE = 5  # one image in so many, where the folder has no test part of its own

Classes = dict[str, list[Path]]


def folder_source(root: Path) -> Source:
    """A folder of images by class, taken as RGB.

    Either ROOT/train/CLASS/... and ROOT/test/CLASS/... (or ``val``, ``validation``), or ROOT/CLASS/..., of which a
    fifth of each class, always the same, is then kept for testing.
    """
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}; wanted is one with a folder of images for each class")
    folders = _subfolders(root)
    # A class may be called train, as one of vehicles; beside a folder called test it is a part.
    if "train" in folders and (len(folders) == 1 or not set(TEST_FOLDERS).isdisjoint(folders)):
        train, test = _given_parts(root, folders)
    else:
        train, test = _split(_classes(root), root)
    names = tuple(train)
    return image_file_source(root.resolve().name, root, names, _labelled(train, names), _labelled(test, names))


def _given_parts(root: Path, folders: list[str]) -> tuple[Classes, Classes]:
    tests = [root / name for name in TEST_FOLDERS if name in folders and _subfolders(root / name)]
    if not tests:
        raise ValueError(
            f"{root} has a folder train, but none of {', '.join(TEST_FOLDERS)} with folders of classes in it; add one, "
            f"or give {root / 'train'} to have a fifth of it kept for testing"
        )
    train, test = _classes(root / "train"), _classes(tests[0], least=1)
    unknown = sorted(test.keys() - train.keys())
    if unknown:
        raise ValueError(f"{tests[0]} has the class {unknown[0]!r}, which {root / 'train'} has not")
    return train, test


def images_below(folder: Path) -> list[Path]:
    """All images in a folder and the folders in it, by their extension, in order; hidden ones are left out."""
    images: list[Path] = []
    seen: set[tuple[int, int]] = set()
    pending = [folder] if folder.is_dir() else []
    while pending:
        current = pending.pop()
        status = current.stat()
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back, or to the same place again
            continue
        seen.add((status.st_dev, status.st_ino))
        names, folders = [], []
        with os.scandir(current) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if _is(entry.is_dir):
                    folders.append(entry.name)
                elif os.path.splitext(entry.name)[1].lower() in EXTENSIONS and _is(entry.is_file):  # noqa: PTH122
                    names.append(entry.name)
        images += [current / name for name in sorted(names)]
        pending += [current / name for name in sorted(folders, reverse=True)]
    return images


def _classes(folder: Path, least: int = 2) -> Classes:
    """The images of each class, or an error: at least so many classes, none of them empty."""
    classes = {name: images_below(folder / name) for name in _subfolders(folder)}
    if not any(classes.values()):
        found = f"the folders {_listed(list(classes))}" if classes else "no folders"
        raise ValueError(f"{folder} has no images in folders of classes ({found} found); {_WANTED}")
    if len(classes) < least:
        raise ValueError(f"{folder} has one class only, {next(iter(classes))!r}; {_WANTED}")
    empty = [name for name, images in classes.items() if not images]
    if empty:
        raise ValueError(f"{folder} has no images for the class {_listed(empty)}; remove the folder or fill it")
    return classes


def _split(classes: Classes, root: Path) -> tuple[Classes, Classes]:
    train, test = {}, {}
    for name, images in classes.items():
        if len(images) < 2:
            raise ValueError(f"{root / name} has one image only; two are needed, one of them to test with")
        drawn = sorted(images, key=lambda path: _draw(path.relative_to(root)))
        kept = set(drawn[: max(1, round(len(images) / TEST_SHARE))])
        train[name] = [path for path in images if path not in kept]
        test[name] = [path for path in images if path in kept]
    return train, test


def _draw(relative: Path) -> bytes:
    """A number that depends on the name alone, so that the same images are drawn on every machine."""
    return hashlib.sha256(os.fsencode(relative.as_posix())).digest()


def _labelled(classes: Classes, names: tuple[str, ...]) -> list[ImageFile]:
    labels = {name: label for label, name in enumerate(names)}
    return [ImageFile(path, labels[name]) for name, images in classes.items() for path in images]


def _subfolders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is(entry.is_dir))


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a link that leads to itself is neither file nor folder
        return False


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


_WANTED = (
    "wanted are FOLDER/CLASS/IMAGE, or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE, for two classes or more"
)
