"""The page as a file: self-contained, safe for hostile names, and small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from singleshot.reporting.page import file_report, page_data, render, write_page
from singleshot.reporting.page.rendering import script_json

HOSTILE = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "a\u202eb", "\"'`\x1b[2J\n&amp;\u2028"]


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of the element that holds the data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.json = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in_data = (tag, ("type", "application/json")) == ("script", next(iter(attrs), None))

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.json += data


def hostile(folder: Path, rows: int = 200) -> Path:
    random = np.random.default_rng(0)
    path = folder / "<b>&'.npz"
    logits = random.normal(size=(rows, len(HOSTILE))) * 5
    np.savez(path, logits=logits, labels=random.integers(0, len(HOSTILE), rows), class_names=np.array(HOSTILE))
    return path


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    source = hostile(tmp_path)
    report = file_report(source, name=f"</script>\udc80{source.name}", replicates=20)
    page = tmp_path / "out" / "page.html"
    data = write_page([report], page, title="</title><script>alert(2)</script>", replicates=20)
    text = page.read_text(encoding="utf-8")
    plain = Elements(render(page_data([file_report(source, name="x", replicates=20)], title="x", replicates=20)))
    found = Elements(text)
    assert [tag for tag, _ in found.found] == [tag for tag, _ in plain.found]  # no element comes from a name
    assert json.loads(found.json) == json.loads(json.dumps(data))
    assert "alert(1)" in found.json
    assert not re.search(r"[<>&\u2028\x1b]", found.json)
    assert data["models"][0]["name"] == "</script>\\udc80<b>&'.npz"
    names = {entry["class"] for entry in data["models"][0]["classes_by_gap"]}
    assert names == {*HOSTILE[:2], "a\\u202eb (2)", "\"'`\\x1b[2J\\n&amp;\\u2028 (3)"}


def test_the_page_makes_no_requests(tmp_path: Path) -> None:
    text = render(page_data([file_report(hostile(tmp_path), replicates=0)], title="one"))
    for tag, attributes in Elements(text).found:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    for tag in ("<style>", '<script type="module">'):
        (content,) = re.findall(f"{tag}(.*?)</(?:style|script)>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"-src 'sha256-{digest}'" in text
    assert not re.search(r"@import|url\(\s*['\"]?http", text)


def test_long_names_are_truncated_and_the_page_stays_small(tmp_path: Path) -> None:
    classes, rows = 2500, 3000
    random = np.random.default_rng(0)
    names = [f"{'n' * 300}{index}" for index in range(classes)]
    logits = random.normal(size=(rows, classes)).astype(np.float32) * 9
    np.savez(tmp_path / "many.npz", logits=logits, labels=random.integers(0, classes, rows), class_names=names)
    data = page_data([file_report(tmp_path / "many.npz", replicates=0)], title="many")
    model = data["models"][0]
    assert len(model["classes_by_gap"]) == 1000
    assert len(model["confusions"]) == 30
    assert re.fullmatch(r"n{119}… \(\d+\)", model["classes_by_gap"][0]["class"])
    assert model["classes_predicted"] > 1000
    assert len(script_json(data)) < 400_000  # ten such models stay well below 5 MB


def test_script_json_survives_a_file_and_does_not_expand_other_scripts(tmp_path: Path) -> None:
    data = ["\ud800", "a\udfffb", "😀", "\u2028\u2029", "</script>&", "\x00\x7f\r\n", "\ufeff\ufffe"]
    (tmp_path / "data.json").write_text(script_json(data), encoding="utf-8")
    text = (tmp_path / "data.json").read_text(encoding="utf-8")
    assert json.loads(text) == data
    assert not re.search(r"[<>&\u2028\u2029\x00\r\n]", text)
    names = [f"{'ж' * 100}{index}" for index in range(1000)]
    assert len(script_json(names).encode()) < 1.05 * sum(len(name.encode()) for name in names)
    assert json.loads(script_json(names)) == names


def test_truncated_model_names_stay_distinct(tmp_path: Path) -> None:
    report = file_report(hostile(tmp_path), replicates=0)
    long = "n" * 300
    names = [f"{long}/a.npz", f"{long}/b.npz", f"{long}n/b.npz"]
    data = page_data([replace(report, name=name) for name in names], title="long", replicates=20)
    end = f"…{'n' * 113}/b.npz"
    assert [model["name"] for model in data["models"]] == [f"…{'n' * 113}/a.npz", end, f"{end} (2)"]
    assert [one["of"] for one in data["comparisons"]] == [end, f"{end} (2)"]


def test_an_infinite_metric_is_not_an_unknown_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "sure.npz", probs=[[1.0, 0.0]] * 40, labels=[0] * 39 + [1])
    data = page_data([file_report(tmp_path / "sure.npz", replicates=20)], title="sure")
    metrics = json.loads(script_json(data))["models"][0]["metrics"]
    assert (metrics["nll"]["estimate"], metrics["nll"]["infinite"]) == (None, True)
    assert (metrics["brier"]["estimate"], metrics["brier"]["infinite"]) == (pytest.approx(2 / 40), False)
