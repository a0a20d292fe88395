"""A traced program as an ONNX file, and the file as a program."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from singleshot.export.facts import ENTRY, facts_text
from singleshot.export.parity import Outputs
from singleshot.export.program import first_line

OPSET = 20  # of 2023: every runtime since knows it, and the exporter needs no conversion for it
MOST_BYTES = 2**31 - 1  # of one protobuf message
PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # what an export needs
INPUT, OUTPUTS = "images", ("logits", "probs")


def write_onnx(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> None:
    """Write the program, with the facts as its metadata."""
    import onnx

    try:
        with _silence():
            converted = torch.onnx.export(
                program,
                input_names=[INPUT],
                output_names=list(OUTPUTS),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the exporter's own kinds, and whatever an operator's translation raises
        reason = first_line(error.__cause__ or error)
        raise ValueError(f"the model cannot be expressed in ONNX: {reason}; format torch-export may do") from error
    assert converted is not None
    model = converted.model_proto
    if model.ByteSize() > MOST_BYTES:
        raise ValueError(f"the model takes {model.ByteSize():,} bytes, more than one ONNX file holds; use torch-export")
    _tidy(model)
    onnx.helper.set_model_props(model, facts_text(facts))
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def read_onnx(path: Path) -> Callable[[Tensor], Outputs]:
    """The file as onnxruntime runs it on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs: Tensor) -> Outputs:
        logits, probs = session.run(list(OUTPUTS), {INPUT: np.ascontiguousarray(inputs.numpy())})
        return torch.from_numpy(logits), torch.from_numpy(probs)

    return run


def _tidy(model: Any) -> None:
    """Name the batch dimension, and leave out the exporter's notes: they quote source lines and paths of a machine."""
    graph = model.graph
    del graph.value_info[:]
    batch = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output):
        del value.metadata_props[:]
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == batch:
                dimension.dim_param = "batch"
    for part in (graph, *graph.node, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    graph.name = "classifier"


@contextmanager
def _silence() -> Iterator[None]:
    """The exporter talks about packages that are not there and about its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


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
