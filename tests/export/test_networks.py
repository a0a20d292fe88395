"""Export of the paper's networks: a file agrees with the network for batches of any size."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import singleshot as ss
from singleshot.data.augmentation import Normalization
from singleshot.export import export_model, read_facts
from singleshot.export.formats import read_onnx, read_program
from singleshot.export.inputs import read_inputs

MEAN, STD, TEMPERATURE = (0.49, 0.45, 0.41), (0.25, 0.21, 0.3), 1.7
NAMES = [f"class {number}" for number in range(10)]
IMAGES = torch.randint(0, 256, (256, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
# One format for the two deepest networks, which take longest: both formats are written from the same trace.
CASES = [(name, kind) for name in ss.list_models() for kind in ("onnx", "torch-export")]
CASES.remove(("resnet34", "onnx"))
CASES.remove(("densenet40_12", "torch-export"))


def lively(model: nn.Module) -> nn.Module:
    """Give a new network the statistics and output size of a trained one, so that agreement is not trivial."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # one batch sets the statistics
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.normal_(module.bias)
    with torch.no_grad():
        model.train()((IMAGES[:64].float() / 255 - 0.45) / 0.25)
    return model


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_file_agrees_with_the_network(name: str, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = lively(ss.create_model(name, num_classes=10, width=0.0625))
    path = tmp_path / ("a.onnx" if kind == "onnx" else "a.pt2")
    export_model(
        model, path, example=IMAGES[:1], format=kind, mean=MEAN, std=STD, class_names=NAMES, temperature=TEMPERATURE
    )
    with torch.no_grad():
        plain: Tensor = model.eval()(Normalization(MEAN, STD)(IMAGES))
        mean, std = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (MEAN, STD))
        exact: Tensor = copy.deepcopy(model).double()((IMAGES / torch.tensor(255, dtype=torch.float64) - mean) / std)
    logits, exact_logits = plain.double().numpy() / TEMPERATURE, exact.numpy() / TEMPERATURE
    assert np.ptp(logits, axis=0).max() > 0.05  # the network distinguishes the images
    rounding = np.abs(logits - exact_logits).max()
    probs = np.exp(logits - logits.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)

    program = (read_onnx if kind == "onnx" else read_program)(path)
    for batch in (1, 7, 256):
        with torch.no_grad():
            found, found_probs = (output.double().numpy() for output in program(read_inputs(IMAGES[:batch], None)))
        # Relative to the largest logit if that is above 1: float32 has no more digits.
        assert np.abs(found - logits[:batch]).max() <= 1e-5 * max(1, np.abs(logits[:batch]).max())
        assert np.abs(found_probs - probs[:batch]).max() <= 1e-5
        assert (found.argmax(1) == logits[:batch].argmax(1)).all()
        assert np.abs(found - exact_logits[:batch]).max() <= max(1e-5, 2 * rounding)

    facts = read_facts(path)
    assert facts["class_names"] == NAMES
    assert (facts["temperature"], facts["temperature_folded"]) == (TEMPERATURE, True)
    assert (facts["mean"], facts["std"]) == (list(MEAN), list(STD))
    assert facts["inputs"][0]["shape"] == ["batch", 3, 32, 32]
    assert facts["inputs"][0]["dtype"] == "uint8"
    assert set(facts["versions"]) == {"singleshot", "torch"}
    check_onnx_graph(path) if kind == "onnx" else check_torch_graph(path)
    content = path.read_bytes()
    assert str(Path(ss.__file__).parent).encode() not in content
    assert str(Path(__file__).parent).encode() not in content


def check_onnx_graph(path: Path) -> None:
    import onnx

    graph = onnx.load(path).graph
    kinds = {node.op_type for node in graph.node}
    assert {"Conv", "Gemm", "Softmax"} <= kinds
    assert not {kind for kind in kinds if "Random" in kind or kind in {"Dropout", "Bernoulli"}}
    assert graph.node[-2].op_type == "Gemm"  # the softmax follows the last layer without a division
    assert [value.name for value in (*graph.input, *graph.output)] == ["images", "logits", "probs"]
    for value in (*graph.input, *graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


def check_torch_graph(path: Path) -> None:
    graph = torch.export.load(path).graph
    assert not [node for node in graph.nodes if "dropout" in str(node.target) or "rand" in str(node.target)]
