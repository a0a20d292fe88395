"""Writing a traced program as an ONNX or torch.export file, and running such a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from singleshot.export.inputs import Inputs
from singleshot.export.metadata import ENTRY
from singleshot.export.parity import Outputs, Program
from singleshot.export.program import first_line, quiet

OPSET = 20  # of 2023: supported by every runtime since, and by the exporter without a conversion
MAX_ONNX_BYTES = 2**31 - 1  # limit of a protobuf message
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
OUTPUTS = ("logits", "probs")


def write_onnx(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> None:
    """Write the program as ONNX, with the facts as its metadata."""
    import onnx

    try:
        with quiet():
            converted = torch.onnx.export(
                program,
                input_names=[one["name"] for one in facts["inputs"]],
                output_names=OUTPUTS,
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the translation of an operator may raise anything
        reason = first_line(error.__cause__ or error)
        raise ValueError(f"the model cannot be expressed in ONNX: {reason}; try format torch-export") from error
    assert converted is not None
    model = converted.model_proto
    if model.ByteSize() > MAX_ONNX_BYTES:
        raise ValueError(f"the model takes {model.ByteSize():,} bytes, too much for an ONNX file; use torch-export")
    _clean(model)
    text = {name: json.dumps(value, ensure_ascii=False, allow_nan=False) for name, value in facts.items()}
    onnx.helper.set_model_props(model, text)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def read_onnx(path: Path) -> Program:
    """Return the file as a function that onnxruntime runs on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs: Inputs) -> Outputs:
        arrays = (np.ascontiguousarray(tensor.numpy()) for tensor in inputs.tensors)
        logits, probs = session.run(OUTPUTS, dict(zip(inputs.names, arrays, strict=True)))
        return torch.from_numpy(logits), torch.from_numpy(probs)

    return run


def _clean(model: Any) -> None:
    """Name the batch dimension, and remove the exporter's notes, which contain paths and source lines."""
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


def write_program(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> None:
    """Write the program as a torch.export archive, with the facts as an extra file."""
    text = json.dumps(facts, ensure_ascii=False, allow_nan=False, indent=2)
    program.example_inputs = None  # they may be private: a text, or features of a person
    with quiet():
        torch.export.save(program, path, extra_files={ENTRY: text})


def read_program(path: Path) -> Program:
    """Return the file as a function. Loading may run code in the file, so use it only on a file just written."""
    with quiet():
        module = torch.export.load(path).module()
    return lambda inputs: inputs.call(module)
