"""The page as a file: one document, safe whatever names hold, and small."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from singleshot.data import Images
from singleshot.metrics import Examples
from singleshot.metrics.examples import ScoredBatch
from singleshot.report.page import page_data, render, subject_of_file, unique_names, write_page
from singleshot.report.page.classes import AnswerGathering
from singleshot.report.page.gallery import MOST_IMAGES, gallery, png_data_uri
from singleshot.report.page.rendering import script_json
from singleshot.report.page.subject import evaluate_command

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


def test_names_from_outside_are_text_and_nothing_else(tmp_path: Path) -> None:
    source = hostile(tmp_path)
    subject = subject_of_file(source, name=f"</script>\udc80{source.name}", replicates=20)
    page = tmp_path / "out" / "page.html"
    data = write_page([subject], page, title="</title><script>alert(2)</script>", replicates=20)
    text = page.read_text(encoding="utf-8")
    plain = Elements(render(page_data([subject_of_file(source, name="x", replicates=20)], title="x", replicates=20)))
    found = Elements(text)
    assert [tag for tag, _ in found.found] == [tag for tag, _ in plain.found]  # no element comes from a name
    assert json.loads(found.json) == json.loads(json.dumps(data))
    assert "alert(1)" in found.json
    assert not re.search(r"[<>&\u2028\x1b]", found.json)
    assert data["models"][0]["name"] == "</script>\\udc80<b>&'.npz"
    names = {entry["class"] for entry in data["models"][0]["classes_by_gap"]}
    assert names == {*HOSTILE[:2], "a\\u202eb", "\"'`\\x1b[2J\\n&amp;\\u2028"}


def test_a_page_asks_nothing_of_the_network(tmp_path: Path) -> None:
    text = render(page_data([subject_of_file(hostile(tmp_path), replicates=0)], title="alone"))
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


def test_long_names_are_cut_and_the_page_stays_small(tmp_path: Path) -> None:
    classes, rows = 3000, 4000
    random = np.random.default_rng(0)
    names = [f"{'n' * 300}{index}" for index in range(classes)]
    logits = random.normal(size=(rows, classes)).astype(np.float32) * 9
    np.savez(tmp_path / "many.npz", logits=logits, labels=random.integers(0, classes, rows), class_names=names)
    data = page_data([subject_of_file(tmp_path / "many.npz", replicates=0)], title="many")
    model = data["models"][0]
    assert len(model["classes_by_gap"]) == 1000
    assert len(model["confusions"]) == 30
    assert len(model["classes_by_gap"][0]["class"]) == 120
    assert model["classes_predicted"] > 1000
    assert len(script_json(data)) < 400_000  # so that of ten such models is well below 5 MB


def test_names_in_other_scripts_take_no_more_room_than_their_letters() -> None:
    names = [f"{'ж' * 100}{index}" for index in range(1000)]
    text = script_json(names)
    assert len(text.encode()) < 1.05 * sum(len(name.encode()) for name in names)
    assert json.loads(text) == names


def test_whatever_a_name_holds_the_data_come_back_from_a_file(tmp_path: Path) -> None:
    data = ["\ud800", "a\udfffb", "😀", "\u2028\u2029", "</script>&", "\x00\x7f\r\n", "\ufeff\ufffe"]
    (tmp_path / "data.json").write_text(script_json(data), encoding="utf-8")
    text = (tmp_path / "data.json").read_text(encoding="utf-8")
    assert json.loads(text) == data
    assert not re.search(r"[<>&\u2028\u2029\x00\r\n]", text)


def test_names_that_differ_in_what_is_cut_off_stay_apart(tmp_path: Path) -> None:
    subject = subject_of_file(hostile(tmp_path), replicates=0)
    long = "n" * 300
    names = [f"{long}/a.npz", f"{long}/b.npz", f"{long}n/b.npz"]
    data = page_data([replace(subject, name=name) for name in names], title="long", replicates=20)
    end = f"…{'n' * 113}/b.npz"
    assert [model["name"] for model in data["models"]] == [f"…{'n' * 113}/a.npz", end, f"{end} (2)"]
    assert [one["of"] for one in data["comparisons"]] == [end, f"{end} (2)"]


def test_an_infinite_metric_is_told_from_one_that_is_not_known(tmp_path: Path) -> None:
    np.savez(tmp_path / "sure.npz", probs=[[1.0, 0.0]] * 40, labels=[0] * 39 + [1])
    data = page_data([subject_of_file(tmp_path / "sure.npz", replicates=20)], title="sure")
    metrics = json.loads(script_json(data))["models"][0]["metrics"]
    assert (metrics["nll"]["estimate"], metrics["nll"]["infinite"]) == (None, True)
    assert (metrics["brier"]["estimate"], metrics["brier"]["infinite"]) == (pytest.approx(2 / 40), False)


def test_names_are_unique() -> None:
    assert unique_names([Path("a.npz"), Path("a.npz"), Path("a.npz"), Path("a.npz (2)")]) == [
        "a.npz",
        "a.npz (2)",
        "a.npz (3)",
        "a.npz (2) (2)",
    ]
    assert unique_names([Path(), Path("/")]) == [".", "/"]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 100, 50), (4, 8, 8)])
def test_an_image_is_a_png_of_at_most_its_own_size(shape: tuple[int, int, int]) -> None:
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    kind, _, content = png_data_uri(image).partition(",")
    assert kind == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as picture:
        assert picture.size == ((32, 64) if shape[1] == 100 else shape[:0:-1])
        pixels: Any = np.asarray(picture)
    if shape[1] < 100:
        expected = image[: 3 if shape[0] == 3 else 1].permute(1, 2, 0).squeeze(2).numpy()
        assert (pixels == expected).all()


def test_the_gallery_has_the_surest_mistakes_and_the_least_sure_hits() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(300, 3)), random.integers(0, 3, 300)
    images = Images(torch.zeros(400, 1, 8, 8, dtype=torch.uint8), torch.zeros(400, dtype=torch.int64))
    gathering = AnswerGathering(3)
    gathering.add(ScoredBatch.of(logits=logits, labels=labels))
    examples = Examples.of(logits=logits, labels=labels)
    positions = torch.arange(100, 400)
    found = gallery(gathering.finish(), examples, images, positions, ("x", "y", "z"))
    right = logits.argmax(1) == labels
    confidence = examples.confidence.numpy()
    for part, chosen, sign in (("mistakes", ~right, -1), ("hits", right, 1)):
        rows = np.flatnonzero(chosen)
        expected = rows[np.argsort(sign * confidence[rows], kind="stable")][:MOST_IMAGES]
        assert [entry["index"] - 100 for entry in found[part]] == expected.tolist()
        for entry in found[part]:
            row = entry["index"] - 100
            assert entry["label"] == "xyz"[labels[row]]
            assert entry["predicted"] == "xyz"[logits[row].argmax()]
            assert entry["confidence"] == confidence[row]


def test_a_file_that_looks_like_a_flag_is_named_as_a_file() -> None:
    assert evaluate_command(Path("-x y.npz"), ["--kind", "probs"], 50) == (
        "singleshot evaluate './-x y.npz' --kind probs --replicates 50"
    )
