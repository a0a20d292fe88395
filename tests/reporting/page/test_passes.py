"""The stochastic passes of a file on its page, against plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import oracle
from integration.overconfident import calibrated, run, shown_json
from singleshot.cli.report import report
from singleshot.reporting.page import file_report, page_data

ROWS, SAMPLES, BINS = 1500, 5, 200
LOGITS, LABELS = calibrated(0, ROWS)
PASSES = LOGITS + np.random.default_rng(1).normal(size=(SAMPLES, *LOGITS.shape)) * 2


def write(path: Path, **passes: Any) -> Path:
    arrays = {"logits": LOGITS, "labels": LABELS, **passes}
    if path.suffix == ".safetensors":
        save_file(arrays, path)
    else:
        (np.savez_compressed if "small" in path.name else np.savez)(path, **arrays)
    return path


def expected(logits: Any) -> dict[str, Any]:
    """The histogram of passes (T, N, C), one bin at a time; NaN where a bin is empty."""
    mean = oracle.softmax(logits).mean(0)
    index = np.array([oracle.which_bin(value, BINS) for value in oracle.alpha(logits, "bhattacharyya")])
    correct, score = mean.argmax(1) == LABELS, mean.max(1)
    rows = [index == b for b in range(BINS)]
    return {
        "samples": len(logits),
        "examples": ROWS,
        "of": ROWS,
        "lower": [b / BINS for b in range(BINS)],
        "upper": [(b + 1) / BINS for b in range(BINS)],
        "count": [int(chosen.sum()) for chosen in rows],
        "accuracy": [correct[chosen].mean() if chosen.any() else np.nan for chosen in rows],
        "score": [score[chosen].mean() if chosen.any() else np.nan for chosen in rows],
        "coverage": [(index <= b).mean() for b in range(BINS)],
    }


@pytest.mark.parametrize("name", ["a.npz", "small.npz", "a.safetensors"])
def test_the_histogram_is_that_of_the_oracle(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    histogram = expected(PASSES)
    assert sum(count > 0 for count in histogram["count"]) > 5
    for array in ({"pass_logits": PASSES}, {"pass_probs": oracle.softmax(PASSES)}):
        path = write(tmp_path / name, **array)
        for scores in (2**19, 1000):  # all examples at once, and 50 at a time
            monkeypatch.setattr("singleshot.predictions.file.CHUNK_SCORES", scores)
            found = file_report(path, replicates=0).passes
            assert found is not None
            assert list(found) == list(histogram)
            for field, values in histogram.items():
                given = torch.as_tensor(found[field]).numpy()
                np.testing.assert_allclose(given, values, rtol=1e-9, err_msg=field)


def test_passes_change_nothing_else_on_the_page(tmp_path: Path) -> None:
    without = write(tmp_path / "a.npz")
    plain = page_data([file_report(without, replicates=20)], title="one")
    assert plain["models"][0].pop("passes") is None
    smaller = plain["models"][0].pop("file")["bytes"]
    write(without, pass_logits=PASSES)
    with_passes = page_data([file_report(without, replicates=20)], title="one")
    assert with_passes["models"][0].pop("passes")["samples"] == SAMPLES
    assert with_passes["models"][0].pop("file")["bytes"] > smaller
    assert with_passes == plain


def test_the_command_shows_the_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.npz", pass_logits=PASSES.astype(np.float32))
    run(report, str(path), "-o", str(tmp_path / "page.html"), "--json", "--replicates", "0")
    passes = shown_json(capsys)["models"][0]["passes"]
    assert (passes["samples"], sum(passes["count"])) == (SAMPLES, ROWS)
    assert f'"passes":{{"samples":{SAMPLES},' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_invalid_passes_leave_no_page(tmp_path: Path) -> None:
    bad = PASSES.copy()
    bad[3, 1499] = np.nan
    for passes, said in ((PASSES[:1], r"got \(1, 1500, 4\)"), (bad, "pass 3, row 1499 .* has nan for class 0")):
        path = write(tmp_path / "a.npz", pass_logits=passes)
        with pytest.raises(ValueError, match=rf"a\.npz: array 'pass_logits'.*{said}"):
            run(report, str(path), "-o", str(tmp_path / "page.html"), "--replicates", "0")
        assert not (tmp_path / "page.html").exists()
