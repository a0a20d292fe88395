"""A file that disagrees with its model is not kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from singleshot.common.errors import StoppedError
from singleshot.export import ParityError, export_model, exporting as export_module
from singleshot.export.formats import read_program, write_program
from singleshot.export.inputs import Inputs, read_inputs
from singleshot.export.parity import Program, check_parity

ROWS = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


def columns(inputs: Inputs, logits: int, probs: int) -> tuple[Tensor, Tensor]:
    return inputs.tensors[0][:, :logits], inputs.tensors[0][:, :probs]


def test_a_file_that_disagrees_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Program:
        run = read_program(path)
        return lambda inputs: (run(inputs)[0] + 1e-3, run(inputs)[1])

    monkeypatch.setitem(export_module.FORMATS, "torch-export", (".pt2", write_program, read))
    (tmp_path / "a.pt2").write_text("previous content")
    model = nn.Linear(6, 3)
    nn.init.zeros_(model.weight)  # logits below 1: an absolute difference
    with pytest.raises(ParityError, match=r"the logits differ by 0\.001, above the tolerance of 1e-05; no file was"):
        export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["previous content"]


def test_outputs_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = nn.Linear(6, 3)
    nn.init.constant_(model.bias, torch.inf)  # inf - inf is NaN
    with pytest.raises(ParityError, match="differ by nan"):
        export_model(model, tmp_path / "a.pt2", example=ROWS, format="torch-export")
    assert not list(tmp_path.iterdir())


def test_a_parity_error_is_not_a_value_error() -> None:
    with pytest.raises(StoppedError, match=r"have shape \(1, 2\), those of the model \(1, 3\); no file was") as failed:
        check_parity(lambda x: columns(x, 3, 3), lambda x: columns(x, 2, 3), read_inputs(ROWS, None))
    assert failed.value.exit_code == 1
    assert not isinstance(failed.value, ValueError)
