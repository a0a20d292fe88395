"""Any damage to idx files and Tiny ImageNet is refused with the file's name, or leaves the images readable."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from singleshot.data.catalogue import PUBLICATIONS
from singleshot.data.formats.mnist import mnist_source
from singleshot.data.formats.tiny_imagenet import tiny_imagenet_source
from singleshot.data.image_source import ImageSource
from small_publications import Files, mnist_files, tiny_imagenet_files, write

IDX = mnist_files(train=6, test=4)
PLAIN_IDX = {name.removesuffix(".gz"): gzip.decompress(content) for name, content in IDX.items()}
TINY = tiny_imagenet_files(classes=2, train=2, test=1)


def opened(folder: Path, files: Files) -> ImageSource:
    if files is TINY:
        return tiny_imagenet_source(folder)
    return mnist_source(PUBLICATIONS["mnist"], folder, [folder / name for name in files])


@settings(max_examples=150, deadline=None)
@given(
    files=st.sampled_from([IDX, PLAIN_IDX, TINY]),
    file=st.floats(0, 1, exclude_max=True),
    where=st.floats(0, 1, exclude_max=True),
    change=st.none() | st.binary(max_size=20),
)
def test_damage_is_refused_or_harmless(
    files: Files, file: float, where: float, change: bytes | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    write(folder, files)
    path = folder / list(files)[int(file * len(files))]
    data = path.read_bytes()
    place = int(where * len(data))
    path.write_bytes(data[:place] if change is None else data[:place] + change + data[place + len(change) :])
    try:
        source = opened(folder, files)
        batches = [batch for read in (source.train, source.test) for batch in read(8)]
    except ValueError as error:
        assert str(folder) in str(error)  # noqa: PT017
        return
    for batch in batches:
        assert batch.images.dtype == np.uint8
        assert len(batch.images) == len(batch.labels)
        assert set(batch.labels.tolist()) <= set(range(len(source.class_names)))
        assert all(str(path) in reason for reason in batch.unreadable)


def test_every_flipped_bit_of_a_gzipped_idx_file_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, IDX)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    data = labels.read_bytes()
    expected = [batch.labels.tolist() for batch in opened(tmp_path, IDX).train(8)]
    for place in range(10 * 8, len(data) * 8):  # behind the header, whose time and flags do not matter
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        labels.write_bytes(changed)
        try:
            found = [batch.labels.tolist() for batch in opened(tmp_path, IDX).train(8)]
        except ValueError as error:
            assert labels.name in str(error)  # noqa: PT017
        else:
            assert found == expected
