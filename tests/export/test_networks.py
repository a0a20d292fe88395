"""Every network of the paper, as a file: what it says is what the network says, for batches of any size."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import singleshot as ss
from singleshot.data.augmentation import Normalization
from singleshot.export import export_model, read_facts
from singleshot.export.formats import read_onnx, read_program

MEAN, STD, TEMPERATURE = (0.49, 0.45, 0.41), (0.25, 0.21, 0.3), 1.7
READERS = {"onnx": read_onnx, "torch-export": read_program}
IMAGES = torch.randint(0, 256, (256, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(torch.uint8)


@dataclass
class Case:
    """What a network says in one plain pass without noise, and its file in each format."""

    logits: NDArray[np.float64]
    exact_logits: NDArray[np.float64]  # of the same weights in float64
    files: dict[str, Path]


@pytest.fixture(scope="module", params=ss.list_models())
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    torch.manual_seed(0)
    model = lively(ss.create_model(request.param, num_classes=10, width=0.0625))
    folder = tmp_path_factory.mktemp(request.param)
    files = {"onnx": folder / "a.onnx", "torch-export": folder / "a.pt2"}
    names = [f"class {number}" for number in range(10)]
    for kind, path in files.items():
        export_model(
            model, path, example=IMAGES[:1], format=kind, mean=MEAN, std=STD, class_names=names, temperature=TEMPERATURE
        )
    with torch.no_grad():
        logits: Tensor = model.eval()(Normalization(MEAN, STD)(IMAGES))
        mean, std = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (MEAN, STD))
        exact: Tensor = copy.deepcopy(model).double()((IMAGES / torch.tensor(255, dtype=torch.float64) - mean) / std)
    return Case(logits.double().numpy(), exact.numpy(), files)


def lively(model: nn.Module) -> nn.Module:
    """Fresh weights with statistics and outputs like those of a trained net, so that agreement says something."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain average: one batch sets the statistics
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.normal_(module.bias)
    with torch.no_grad():
        model.train()((IMAGES[:64].float() / 255 - 0.45) / 0.25)
    return model


@pytest.mark.parametrize("kind", READERS)
def test_a_file_agrees_with_the_network(case: Case, kind: str) -> None:
    assert np.ptp(case.logits, axis=0).max() > 0.1  # the net does tell the images apart
    program = READERS[kind](case.files[kind])
    for batch in (1, 7, 256):
        with torch.no_grad():
            logits, probs = program(IMAGES[:batch])
        compare(logits, probs, case.logits[:batch])


def compare(logits: Tensor, probs: Tensor, plain: NDArray[np.float64]) -> None:
    scaled = plain / TEMPERATURE
    # Relative to the largest logit where that is above 1: in float32 a net whose logits reach 10 is no nearer to itself
    # in float64, or in batches of another size.
    assert np.abs(logits.double().numpy() - scaled).max() <= 1e-5 * max(1, np.abs(scaled).max())
    shifted = np.exp(scaled - scaled.max(1, keepdims=True))
    assert np.abs(probs.double().numpy() - shifted / shifted.sum(1, keepdims=True)).max() <= 1e-5
    assert (logits.argmax(1).numpy() == plain.argmax(1)).all()


@pytest.mark.parametrize("kind", READERS)
def test_a_file_is_as_near_to_the_exact_network_as_the_network_in_float32(case: Case, kind: str) -> None:
    exact = case.exact_logits / TEMPERATURE
    rounding = np.abs(case.logits / TEMPERATURE - exact).max()
    program = READERS[kind](case.files[kind])
    for batch in (1, 7, 256):
        with torch.no_grad():
            logits, _ = program(IMAGES[:batch])
        assert np.abs(logits.double().numpy() - exact[:batch]).max() <= max(1e-5, 2 * rounding)


@pytest.mark.parametrize("kind", READERS)
def test_the_temperature_is_in_the_last_layer_and_the_facts_say_so(case: Case, kind: str) -> None:
    facts = read_facts(case.files[kind])
    assert facts["class_names"] == [f"class {number}" for number in range(10)]
    assert (facts["temperature"], facts["temperature_folded"]) == (TEMPERATURE, True)
    assert (facts["mean"], facts["std"]) == (list(MEAN), list(STD))
    assert facts["input"]["shape"] == ["batch", 3, 32, 32]
    assert facts["input"]["dtype"] == "uint8"
    assert set(facts["versions"]) == {"singleshot", "torch"}


def test_nothing_random_is_left_and_nothing_of_this_machine(case: Case) -> None:
    import onnx

    model = onnx.load(case.files["onnx"])
    kinds = {node.op_type for node in model.graph.node}
    assert {"Conv", "Gemm", "Softmax"} <= kinds
    assert not {kind for kind in kinds if "Random" in kind or kind in {"Dropout", "Bernoulli"}}
    assert model.graph.node[-2].op_type == "Gemm"  # the softmax follows the last layer: no division in between
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["images", "logits", "probs"]
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    graph = torch.export.load(case.files["torch-export"]).graph
    assert not [node for node in graph.nodes if "dropout" in str(node.target) or "rand" in str(node.target)]
    for path in case.files.values():
        content = path.read_bytes()
        assert str(Path(ss.__file__).parent).encode() not in content
        assert str(Path(__file__).parent).encode() not in content
