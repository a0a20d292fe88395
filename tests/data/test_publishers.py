from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from singleshot.data.locations import FOLDERS
from singleshot.data.published.publishers import PUBLICATIONS, Publication, publication
from singleshot.data.registry import list_datasets

CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")


def test_every_data_set_with_files_has_a_publisher() -> None:
    assert sorted([*PUBLICATIONS, "digits"]) == list_datasets()


@pytest.mark.parametrize("published", PUBLICATIONS.values(), ids=PUBLICATIONS)
def test_the_facts_are_whole_and_agree_with_each_other(published: Publication) -> None:
    assert published.folder == FOLDERS[published.name][0]  # where the loader looks first
    assert published.terms
    assert urlsplit(published.homepage).scheme in ("http", "https")
    for download in published.downloads:
        assert CHECKSUM.fullmatch(download.checksum)
        assert all(url.endswith(f"/{download.name}") for url in download.urls)
        assert download.urls[0].startswith("https://")
    for layout in published.layouts:
        names = [file.name for file in layout.files]
        assert len(set(names)) == len(names)
        checksums = [file.checksum for file in layout.files if file.checksum]
        assert all(CHECKSUM.fullmatch(checksum) for checksum in checksums)
        assert len(set(checksums)) == len(checksums)
    if published.unpacked_bytes:
        sizes = sum(file.size or 0 for file in published.layouts[0].files)
        assert sizes <= published.unpacked_bytes
        assert published.download_bytes < 1.1 * published.unpacked_bytes
    else:
        assert {f"{file.name}.gz" for file in published.layouts[0].files} == {file.name for file in published.downloads}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar1000", "did you mean cifar100"),
        ("Fashion-MNIST", "did you mean fashion_mnist"),
        ("imagenet", "did you mean tiny_imagenet"),
        ("zzz", r"no data set 'zzz' to download; There are cifar10, cifar100, fashion_mnist, mnist, tiny_imagenet"),
        ("digits", "nothing to download"),
    ],
)
def test_a_name_that_is_none_gets_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        publication(name)
