"""Files made to exhaust memory or time, or to send control characters to the terminal."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from predictions.files import predictions
from singleshot.predictions import read_predictions
from singleshot.predictions.file import Predictions

LOGITS, LABELS = predictions(20, 3, "logits")


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match="a\\.") as error:
        read_predictions(path).load()
    return str(error.value)


def test_long_label_does_not_widen_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,prob_a,prob_c\n" + "a,1,0\n" * 5000 + "b" * 131_000 + ",1,0\n")
    assert "line 5002: the label has 131,000 characters, more than 4,096" in refusal(path)
    path.write_text("label,prob_a,prob_c\n" + "a,1,0\n" * 50_000 + "b" * 4096 + ",1,0\n")
    tracemalloc.start()
    assert "unknown label" in refusal(path)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_wrong_number_of_cells_is_found_before_the_block_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    wide = "," * 100_000 + "\n"
    path.write_text("label,prob_a,prob_b\na,1,0\n" + wide * 50)
    tracemalloc.start()
    assert "line 3: 100001 cells, but 3 headings" in refusal(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_blocks_are_bounded_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.predictions.csv_files.BLOCK_CHARACTERS", 5000)
    monkeypatch.setattr("singleshot.predictions.jsonl_files.BLOCK_CHARACTERS", 5000)
    monkeypatch.setattr("singleshot.predictions.arrays.BLOCK_BYTES", 5000)
    (tmp_path / "a.csv").write_text("label,note,prob_a,prob_b\n" + f"a,{'x' * 1000},1,0\n" * 20)
    (tmp_path / "a.jsonl").write_text((json.dumps({"label": 0, "note": "x" * 1000, "probs": [1, 0]}) + "\n") * 20)
    names = np.array(["a", "b" * 250])
    np.savez(
        tmp_path / "a.npz",
        probs=np.full((20, 2), 0.5),
        labels=np.array(["a"] * 20, names.dtype),
        class_names=["a", "b"],
    )
    for file in ("a.csv", "a.jsonl", "a.npz"):
        lengths = [len(chunk.labels) for chunk in read_predictions(tmp_path / file).chunks()]
        assert sum(lengths) == 20
        assert max(lengths) <= 5


def test_row_of_many_quoted_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleshot.predictions.csv_files.MAX_LINE", 1000)
    (tmp_path / "a.csv").write_text("label,prob_a\n" + '"a\n",' * 1000)
    assert "has a line of 1,000 characters or more" in refusal(tmp_path / "a.csv")


def test_many_duplicate_class_names() -> None:
    names = tuple(f"c{index // 2}" for index in range(200_000))  # names.count() for each would take minutes
    with pytest.raises(ValueError, match="more than one class named c0, c1, "):
        Predictions(Path("a.npz"), "probs", len(names), 1, names, lambda _: iter(()))


def test_malicious_npy_headers(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", LABELS[:2])
    for descr in ("()", "('<f4',)", "[()]", "[[]]", "(" * 300 + ")" * 300, "{}"):
        header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (2, 2), }}".encode()
        (tmp_path / "a.logits.npy").write_bytes(
            b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)
        )
        with pytest.raises(ValueError, match=r"a\.logits\.npy"):
            read_predictions(tmp_path / "a.logits.npy", labels=str(tmp_path / "y.npy"))


def test_deeply_nested_class_names(tmp_path: Path) -> None:
    save_file({"logits": LOGITS, "labels": LABELS}, tmp_path / "a.safetensors", {"class_names": "[" * 200_000})
    assert "must be a JSON list" in refusal(tmp_path / "a.safetensors")


def test_control_characters_are_escaped(tmp_path: Path) -> None:
    evil = "\x1b[2J\r\nfine"
    np.savez(tmp_path / "a.npz", **{evil: LOGITS, "labels": LABELS})  # type: ignore[arg-type]
    (tmp_path / "a.csv").write_text(f'label,"{evil}"\na,1\n', newline="")
    save_file({evil: LOGITS}, tmp_path / "a.safetensors", {"class_names": json.dumps([evil])})
    messages = [refusal(path) for path in sorted(tmp_path.iterdir())]
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=np.array(["x"] * 20), class_names=[evil, "b", "c"])
    messages.append(refusal(tmp_path / "a.npz"))
    for message in messages:
        assert message.isprintable(), message
        assert "x1b[2J" in message


def test_endless_blank_lines_are_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("label,prob_a\na,1\n" + "\n" * (2**20 + 10))
    assert f"line {2**20 + 3}: more than 1,048,576 blank lines in a row" in refusal(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv").write_text("label,prob_a\n\n\na,1\n\na,1\n\n")
    assert len(read_predictions(tmp_path / "a.csv").load().labels) == 2


def test_unused_values_of_json_lines_are_not_kept(tmp_path: Path) -> None:
    row = json.dumps({"label": 0, "note": "x" * 10_000, "probs": [1, 0]}) + "\n"
    (tmp_path / "a.jsonl").write_text(row * 1000)
    found = read_predictions(tmp_path / "a.jsonl")
    tracemalloc.start()
    assert len(found.load().labels) == 1000
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


@pytest.mark.parametrize("first", ["label,prob_a", '{"label": 0, "probs": [1, 0]}', ""])
@pytest.mark.parametrize("blank", ["\n", "  \r\n"])
def test_blank_lines_are_limited_when_a_text_file_is_opened(
    first: str, blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleshot.predictions.text_files.MAX_BLANK_LINES", 100)
    path = tmp_path / ("a.jsonl" if first[:1] == "{" else "a.csv")
    path.write_text(f"{first}\n{blank * 200}")
    assert "more than 100 blank lines in a row" in refusal(path)


def test_pipes_and_devices_are_not_called_directories(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "a.npz").symlink_to("/dev/zero")
    (tmp_path / "a.npy").mkdir()
    assert "is a pipe, a socket or a device; expected a file" in refusal(tmp_path / "a.csv")
    assert "is a pipe, a socket or a device; expected a file" in refusal(tmp_path / "a.npz")
    assert "is a directory; expected a file" in refusal(tmp_path / "a.npy")


def test_long_values_are_truncated_in_messages(tmp_path: Path) -> None:
    long = "x" * 4000
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=np.array([long] * 20), class_names=["a", long + "y", "c"])
    assert len(refusal(tmp_path / "a.npz")) < 1000
    np.savez(tmp_path / "a.npz", **{long: LOGITS})  # type: ignore[arg-type]
    assert len(refusal(tmp_path / "a.npz")) < 1000
    (tmp_path / "a.csv").write_text(f"label,prob_a\n{long},1\n")
    assert len(refusal(tmp_path / "a.csv")) < 1000
