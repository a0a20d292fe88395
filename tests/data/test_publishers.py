from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from singleshot.data.catalogue import PUBLICATIONS
from singleshot.data.fetching.fetch import fetch_dataset
from singleshot.data.registry import list_datasets

CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")


def test_facts_are_complete_and_consistent() -> None:
    assert sorted([*PUBLICATIONS, "digits"]) == list_datasets()
    for published in PUBLICATIONS.values():
        assert published.folders
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
            if layout.name == "python":  # pickles, which are unpickled only if their checksum is known
                assert len(checksums) == len(names)
                assert all(checksum.startswith("md5:") for checksum in checksums)
        files = published.layouts[0].files
        if not published.is_archived:
            assert {f"{file.name}.gz" for file in files} == {file.name for file in published.downloads}


def test_unknown_name_suggests_the_nearest() -> None:
    for name, message in [
        ("cifar1000", "did you mean 'cifar100'"),
        ("Fashion-MNIST", "did you mean 'fashion_mnist'"),
        ("imagenet", "did you mean 'tiny_imagenet'"),
        ("zzz", r"unknown dataset 'zzz'; choose one of cifar10, cifar100, fashion_mnist, mnist, tiny_imagenet"),
        ("digits", "nothing to download"),
    ]:
        with pytest.raises(ValueError, match=message):
            fetch_dataset(name)
