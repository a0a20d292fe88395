"""A traced program as a ``.pt2`` file, and the file as a program."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from singleshot.export.facts import ENTRY
from singleshot.export.parity import Outputs


def write_program(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> None:
    """Write the program, with the facts as an extra file in its archive, and without the example it was traced on."""
    text = json.dumps(facts, ensure_ascii=False, allow_nan=False, indent=2)
    program.example_inputs = None  # they are the caller's: tokens of a text, features of a person
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the archive's own workings
        torch.export.save(program, path, extra_files={ENTRY: text})


def read_program(path: Path) -> Callable[[Tensor], Outputs]:
    """The file as PyTorch runs it. Only for a file that was written a moment ago: loading one may run code in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.load(path).module()

    def run(inputs: Tensor) -> Outputs:
        logits, probs = module(inputs)
        return logits, probs

    return run
