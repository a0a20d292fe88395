from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from singleshot.training.checkpoint import OPTIMIZER, STATE, WEIGHTS, Checkpoint, CheckpointError, Checkpoints


def network(width: int = 4) -> nn.Module:
    torch.manual_seed(width)
    net = nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(4 * width, 2))
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def trained(width: int = 4, steps: int = 3) -> tuple[nn.Module, torch.optim.SGD]:
    model = network(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 1, 4, 4)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def save(folder: Path, step: int = 1, keep: int | None = None, **state: Any) -> tuple[nn.Module, torch.optim.SGD]:
    model, optimizer = trained(steps=step + 1)
    Checkpoints(folder).save(model, optimizer, {"step": step, **state}, keep=keep)
    return model, optimizer


def load_all(checkpoint: Checkpoint) -> None:
    model = network()
    checkpoint.load_weights(model)
    checkpoint.load_optimizer(model, torch.optim.SGD(model.parameters()))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back_exactly(tmp_path: Path) -> None:
    state: dict[str, Any] = {"third": 1 / 3, "tiny": 5e-324, "none": None, "nested": {"list": [1, 2.5]}}
    model, optimizer = save(tmp_path, 7, **state)
    last = Checkpoints(tmp_path).last()
    assert last is not None
    assert last.step == 7
    assert {name: last.state[name] for name in state} == state
    again = network()
    last.load_weights(again)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    fresh = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    last.load_optimizer(again, fresh)
    for old, new in zip(model.parameters(), again.parameters(), strict=True):
        found, expected = fresh.state[new]["momentum_buffer"], optimizer.state[old]["momentum_buffer"]
        assert torch.equal(found, expected)
        assert found.stride() == new.stride()


def test_a_parameter_that_was_never_updated_has_no_momentum(tmp_path: Path) -> None:
    model, optimizer = trained(steps=1)
    del optimizer.state[next(model.parameters())]
    Checkpoints(tmp_path).save(model, optimizer, {"step": 1}, keep=None)
    last = Checkpoints(tmp_path).last()
    assert last is not None
    again = network()
    fresh = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    last.load_optimizer(again, fresh)
    first, *others = again.parameters()
    assert "momentum_buffer" not in fresh.state[first]
    assert all("momentum_buffer" in fresh.state[other] for other in others)


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-00000002"]
    for step in (5, 9, 13):
        save(tmp_path, step, keep=5)
    assert names(tmp_path) == ["step-00000005", "step-00000013"]
    save(tmp_path, 13, keep=5, evaluated=True)  # the same step once more: never a moment without one
    assert names(tmp_path) == ["step-00000005", "step-00000013-1"]
    assert Checkpoints(tmp_path).at(13).state["evaluated"]
    assert Checkpoints(tmp_path).at(5).step == 5
    with pytest.raises(CheckpointError, match="no checkpoint of step 4; there are: 5, 13"):
        Checkpoints(tmp_path).at(4)
    assert Checkpoints(tmp_path / "nowhere").last() is None


def test_what_a_kill_left_half_written_is_never_used_and_goes_away(tmp_path: Path) -> None:
    save(tmp_path, 3)
    half = tmp_path / ".step-00000004.writing"
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"half")
    last = Checkpoints(tmp_path).last()
    assert last is not None
    assert last.step == 3
    save(tmp_path, 5)
    assert names(tmp_path) == ["step-00000005"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER])
@pytest.mark.parametrize(("harm", "message"), [(truncate, "bytes"), (flip, "sha256"), (Path.unlink, "cannot be read")])
def test_a_damaged_file_is_named(name: str, harm: Any, message: str, tmp_path: Path) -> None:
    save(tmp_path, 3)
    file = tmp_path / "step-00000003" / name
    harm(file)
    last = Checkpoints(tmp_path).last()
    assert last is not None
    with pytest.raises(CheckpointError, match=message) as caught:
        load_all(last)
    assert str(file) in str(caught.value)
    assert f"remove {file.parent} to go on from the checkpoint before it" in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "other"}', "[" * 100_000, '{"format": 3}'])
def test_a_damaged_state_is_named(content: str, tmp_path: Path) -> None:
    save(tmp_path, 3)
    file = tmp_path / "step-00000003" / STATE
    file.write_text(content)
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(tmp_path).last()
    assert str(file) in str(caught.value)


def test_a_pickle_in_place_of_weights_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    folder = tmp_path / "step-00000003"
    torch.save(network().state_dict(), folder / WEIGHTS)
    last = Checkpoints(tmp_path).last()
    assert last is not None
    with pytest.raises(CheckpointError, match="damaged"):
        last.load_weights(network())
    state = json.loads((folder / STATE).read_text())
    import hashlib

    content = (folder / WEIGHTS).read_bytes()
    state["files"][WEIGHTS] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / STATE).write_text(json.dumps(state))
    last = Checkpoints(tmp_path).last()
    assert last is not None
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        last.load_weights(network())


def test_a_checkpoint_of_another_network_tells_the_tensors_apart(tmp_path: Path) -> None:
    save(tmp_path, 3)
    last = Checkpoints(tmp_path).last()
    assert last is not None
    with pytest.raises(CheckpointError, match=r"of another shape: 0\.weight is \(4, 1, 3, 3\) and should be \(8, 1, 3"):
        last.load_weights(network(8))
    other = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.Linear(3, 3))
    with pytest.raises(CheckpointError) as caught:
        last.load_weights(other)
    assert "it has besides" in str(caught.value)
    assert "0.bias" in str(caught.value)
    assert "it lacks" not in str(caught.value)  # 1.weight and 1.bias are there, of another shape
    with pytest.raises(CheckpointError, match="which the network has no place for"):
        last.load_optimizer(other, torch.optim.SGD(other.parameters()))
    assert len(str(caught.value)) < 1000


FULL_DISK = """
import resource, sys, torch
from pathlib import Path
from torch import nn
from singleshot.training.checkpoint import Checkpoints
model = nn.Linear(int(sys.argv[2]), 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
checkpoints = Checkpoints(Path(sys.argv[1]))
checkpoints.save(model, optimizer, {"step": 1}, keep=None)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    checkpoints.save(model, optimizer, {"step": 2}, keep=None)
except OSError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), "100"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "the checkpoint of step 2 could not be written" in done.stdout
    assert "that of step 1 is kept" in done.stdout
    assert names(tmp_path) == ["step-00000001"]
    last = Checkpoints(tmp_path).last()
    assert last is not None
    last.load_weights(nn.Linear(100, 100))
