from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from singleshot.data import UnreadableImagesWarning, load_dataset
from singleshot.data.formats.folder import folder_source, images_below


def image(path: Path, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 9), (shade, shade, shade)).save(path)
    return path


def fill(root: Path, *names: str) -> Path:
    for name in names:
        image(root / name)
    return root


def test_folder_with_both_splits(tmp_path: Path) -> None:
    for test in ("test", "val", "validation"):
        root = fill(
            tmp_path / test, "train/dog/a.png", "train/dog/b.PNG", "train/cat/deep/er/c.jpg", f"{test}/cat/d.webp"
        )
        (root / "train" / "dog" / "notes.txt").write_text("not an image")
        fill(root, "train/dog/.hidden.png", "train/.git/x.png")
        dataset = load_dataset(str(root), image_size=8)
        assert dataset.name == root.name
        assert dataset.class_names == ("cat", "dog")
        assert dataset.train.labels.tolist() == [0, 1, 1]
        assert dataset.test.labels.tolist() == [0]
        assert dataset.train.images.shape == (3, 3, 8, 8)


def test_test_folder_without_classes_is_ignored(tmp_path: Path) -> None:
    fill(tmp_path, "train/a/1.png", "train/b/1.png", "test/loose.png", "val/a/2.png")
    assert [path.name for path in folder_source(tmp_path).files] == ["1.png", "1.png", "2.png"]


def test_train_can_be_a_class(tmp_path: Path) -> None:
    fill(tmp_path, *(f"{vehicle}/{number}.png" for vehicle in ("train", "car") for number in range(3)))
    assert folder_source(tmp_path).class_names == ("car", "train")


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(2, 23), min_size=2, max_size=4))
def test_fifth_of_each_class_is_held_out(tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int]) -> None:
    root = tmp_path_factory.mktemp("folder")
    for name, count in counts.items():
        (root / name).mkdir()
        for number in range(count):
            (root / name / f"{number}.png").touch()  # not read here
    source = folder_source(root)
    kept = {name: max(1, round(count / 5)) for name, count in counts.items()}
    train = source.files[: -sum(kept.values())]
    test = source.files[-sum(kept.values()) :]
    assert not set(train) & set(test)
    for name, count in counts.items():
        assert sum(path.parent.name == name for path in test) == kept[name]
        assert sum(path.parent.name == name for path in train) == count - kept[name]
    again = root.rename(root.with_name(f"{root.name}-moved"))
    assert [path.relative_to(again) for path in folder_source(again).files] == [
        path.relative_to(root) for path in source.files
    ]


def test_invalid_folders(tmp_path: Path) -> None:
    unknown = ["train/a/1.png", "train/b/1.png", "test/a/1.png", "test/c/1.png"]
    cases: list[tuple[list[str], str]] = [
        ([], r"has no images in class folders \(found no subfolders\)"),
        (["loose.png"], r"has no images in class folders \(found no subfolders\)"),
        (["only/1.png", "only/2.png"], "has only one class, 'only'"),
        (["a/1.png", "a/2.png", "b/"], "has no images for class b; remove the folder or add images"),
        (["a/", "b/"], r"no images in class folders \(found only the empty folders a, b\)"),
        (["a/1.png", "a/2.png", "b/1.png"], r"b has only one image; at least two are needed"),
        (["train/a/1.png", "train/b/1.png"], "has a folder train, but none of test, val, validation"),
        (["train/a/1.png", "train/b/1.png", "test/loose.png"], "has a folder train, but none of test, val"),
        (unknown, "test has class 'c', which is not in .*train"),
        (["train/a/1.png", "test/a/1.png", "test/b/1.png"], "train has only one class, 'a'"),
        (["train/a/1.png", "train/b/", "val/a/1.png"], "train has no images for class b"),
    ]
    for number, (names, message) in enumerate(cases):
        root = tmp_path / str(number)
        root.mkdir()
        for name in names:
            if name.endswith("/"):
                (root / name).mkdir(parents=True)
            else:
                image(root / name)
        with pytest.raises(ValueError, match=message) as caught:
            folder_source(root)
        assert str(root) in str(caught.value)


def test_folder_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"folder .*nowhere does not exist"):
        load_dataset(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"folder .*file\.png does not exist"):
        load_dataset(str(image(tmp_path / "file.png")))


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    root = tmp_path / "images"
    for name in ("a", "b"):
        elsewhere = fill(tmp_path / f"elsewhere-{name}", "1.png", "2.png")
        (root / name).mkdir(parents=True)
        (root / name / "linked").symlink_to(elsewhere)
        (root / name / "same").symlink_to(elsewhere)
        (root / name / "up").symlink_to(root / name)
    assert [path.name for path in images_below(root / "a")] == ["1.png", "2.png"]
    dataset = load_dataset(str(root), image_size=4)
    assert (len(dataset.train), len(dataset.test)) == (2, 2)


def test_links_to_nothing_are_reported_as_unreadable_images(tmp_path: Path) -> None:
    fill(tmp_path, *(f"{name}/{number}.png" for name in "ab" for number in range(4)))
    (tmp_path / "a" / "self.png").symlink_to("self.png")
    (tmp_path / "a" / "dangling.png").symlink_to("nothing.png")
    os.mkfifo(tmp_path / "a" / "pipe.png")  # opening it would block
    with pytest.raises(ValueError, match=r"3 of 11 images in .*dangling\.png"):
        load_dataset(str(tmp_path), image_size=4)
    with pytest.warns(UnreadableImagesWarning, match="skipped 3 of 11 images"):
        dataset = load_dataset(str(tmp_path), image_size=4, skip_unreadable=True)
    assert len(dataset.train) + len(dataset.test) == 8


@pytest.mark.parametrize("place", ["c", "a/more"])
def test_a_link_to_a_folder_that_does_not_exist_is_refused(place: str, tmp_path: Path) -> None:
    fill(tmp_path, *(f"{name}/{number}.png" for name in "ab" for number in range(2)))
    (tmp_path / place).symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match=rf"{place} is a link to something that does not exist"):
        folder_source(tmp_path)


@pytest.mark.parametrize(
    ("link", "target"), [("c", "a"), ("b/more", "a"), ("train/a/old", "test/a"), ("test/b", "train/a")]
)
def test_a_folder_that_two_classes_or_parts_link_to_is_refused(link: str, target: str, tmp_path: Path) -> None:
    parts = ("train/", "test/") if "/a" in target else ("",)
    fill(tmp_path, *(f"{part}{name}/{number}.png" for part in parts for name in "ab" for number in range(2)))
    if link == "test/b":
        shutil.rmtree(tmp_path / link)
    (tmp_path / link).symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match="are the same folder, whose images would be counted twice"):
        folder_source(tmp_path)


def truncate(root: Path, *names: str) -> None:
    for name in names:
        (root / name).write_bytes((root / name).read_bytes()[:40])


def test_unreadable_images_are_reported_or_skipped(tmp_path: Path) -> None:
    fill(
        tmp_path, *(f"{part}/{name}/{number}.png" for part in ("train", "test") for name in "ab" for number in range(9))
    )
    bad = ["train/a/3.png", *(f"train/b/{number}.png" for number in range(6)), "test/b/8.png"]
    truncate(tmp_path, *bad)
    with pytest.raises(ValueError, match=r"8 of 36 images in .* and 3 more\. Repair .*--skip-unreadable") as caught:
        load_dataset(str(tmp_path), image_size=8)
    assert str(tmp_path / bad[0]) in str(caught.value)
    for _ in range(2):  # decoded, then from the cache
        with pytest.warns(UnreadableImagesWarning, match="skipped 8 of 36 images") as warned:
            dataset = load_dataset(str(tmp_path), image_size=8, skip_unreadable=True)
        assert warned[0].filename == __file__
        assert dataset.train.labels.bincount().tolist() == [8, 3]
        assert dataset.test.labels.bincount().tolist() == [9, 8]
    for name in bad:
        image(tmp_path / name)
    assert len(load_dataset(str(tmp_path), image_size=8).train) == 18, "repaired images were not noticed"


def test_every_class_needs_a_readable_image(tmp_path: Path) -> None:
    for number, (bad, message) in enumerate(
        [
            (["train/b/1.png", "train/b/2.png"], "no readable training images for class 'b': 2 images cannot be read"),
            (["test/a/1.png"], "no readable test images: 1 images cannot be read, such as: .*test/a/1.png"),
        ]
    ):
        root = fill(tmp_path / str(number), "train/a/1.png", "train/b/1.png", "train/b/2.png", "test/a/1.png")
        truncate(root, *bad)
        with pytest.raises(ValueError, match=message):
            load_dataset(str(root), skip_unreadable=True)
