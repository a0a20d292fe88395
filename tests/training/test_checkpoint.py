from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from running import accept, finish, rewrite_state, save_on_a_full_disk
from torch import nn

from singleshot.training.checkpoint import (
    MANIFEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    Best,
    Checkpoint,
    CheckpointError,
    Checkpoints,
    EpochSums,
    TrainingState,
)


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


def save(folder: Path, step: int = 1, best: int | None = None, **state: Any) -> tuple[nn.Module, torch.optim.SGD]:
    model, optimizer = trained(steps=step + 1)
    kept = None if best is None else Best(best, nll=0.1)
    Checkpoints(folder).save(
        model, optimizer, TrainingState(step, **{"epochs_closed": 0, "best": kept, **state}), recipe_hash="abc"
    )
    return model, optimizer


def last_of(folder: Path) -> Checkpoint:
    last = Checkpoints(folder).last()
    assert last is not None
    return last


def load_all(checkpoint: Checkpoint) -> None:
    model = network()
    checkpoint.load_weights(model)
    checkpoint.load_optimizer(model, torch.optim.SGD(model.parameters()))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_restores_everything_exactly(tmp_path: Path) -> None:
    sums = EpochSums(2, loss=1 / 3, alpha=5e-324, alpha_steps=1, accuracy=0.7)
    state: dict[str, Any] = {"epochs_closed": 1, "sums": sums, "seconds": 0.1, "scaler": {"scale": 2.0, "list": [1]}}
    model, optimizer = save(tmp_path, 7, best=5, **state)
    last = last_of(tmp_path)
    assert (last.step, last.recipe_hash) == (7, "abc")
    assert last.state == TrainingState(7, best=Best(5, nll=0.1), **state)
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
    Checkpoints(tmp_path).save(model, optimizer, TrainingState(1, epochs_closed=0), recipe_hash="abc")
    last = last_of(tmp_path)
    again = network()
    fresh = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    last.load_optimizer(again, fresh)
    first, *others = again.parameters()
    assert "momentum_buffer" not in fresh.state[first]
    assert all("momentum_buffer" in fresh.state[other] for other in others)


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]
    for step in (5, 9, 13):
        save(tmp_path, step, best=5)
    assert names(tmp_path) == ["step-00000005", "step-00000009", "step-00000013"]
    save(tmp_path, 13, best=5, epochs_closed=3)  # a second version of the same step replaces the first
    assert names(tmp_path) == ["step-00000005", "step-00000013", "step-00000013-1"]
    assert Checkpoints(tmp_path).at(13).state.epochs_closed == 3
    assert Checkpoints(tmp_path).at(5).step == 5
    with pytest.raises(CheckpointError, match="no checkpoint of step 4; available: 5, 13"):
        Checkpoints(tmp_path).at(4)
    assert Checkpoints(tmp_path / "nowhere").last() is None


def test_an_incomplete_checkpoint_is_ignored_and_removed(tmp_path: Path) -> None:
    save(tmp_path, 3)
    half = tmp_path / ".step-00000004.writing"
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"half")
    last = last_of(tmp_path)
    assert last.step == 3
    save(tmp_path, 5)
    assert names(tmp_path) == ["step-00000003", "step-00000005"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def test_a_damaged_file_is_named_and_the_previous_checkpoint_offered(tmp_path: Path) -> None:
    for name in (WEIGHTS, OPTIMIZER, STATE):
        for harm, message in ((truncate, "bytes"), (flip, "sha256"), (Path.unlink, "cannot be read")):
            shutil.rmtree(tmp_path)
            save(tmp_path, 2)
            save(tmp_path, 3)
            file = tmp_path / "step-00000003" / name
            harm(file)
            with pytest.raises(CheckpointError, match=message) as caught:
                load_all(last_of(tmp_path))
            assert str(file) in str(caught.value)
            assert f"remove {file.parent} to resume from the previous checkpoint, step-00000002" in str(caught.value)
            shutil.rmtree(file.parent)
            load_all(last_of(tmp_path))
            harm(tmp_path / "step-00000002" / name)
            with pytest.raises(CheckpointError, match="there is no other checkpoint"):
                load_all(last_of(tmp_path))


def test_a_damaged_best_is_not_to_be_removed_to_resume_from_a_later_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1, best=1)
    save(tmp_path, 2, best=1)
    save(tmp_path, 3, best=1)
    for name in (WEIGHTS, STATE):
        truncate(tmp_path / "step-00000001" / name)
        with pytest.raises(CheckpointError) as caught:
            load_all(Checkpoints(tmp_path).at(1))
        assert str(tmp_path / "step-00000001") in str(caught.value)
        assert "the last checkpoint, step-00000003, does not need it: use the last weights" in str(caught.value)
        assert "remove" not in str(caught.value)
    truncate(tmp_path / "step-00000003" / STATE)
    with pytest.raises(CheckpointError, match="to resume from the previous checkpoint, step-00000002"):
        last_of(tmp_path)


def test_every_changed_bit_of_the_state_and_the_manifest_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    for name in (STATE, MANIFEST):
        file = tmp_path / "step-00000003" / name
        content = file.read_bytes()
        for place in range(len(content)):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            file.write_bytes(changed)
            try:
                load_all(last_of(tmp_path))
            except CheckpointError as error:
                assert "step-00000003" in str(error)  # noqa: PT017
            else:  # only a space of the manifest that is a space no more
                assert name == MANIFEST
                assert content[place : place + 1].isspace()
        file.write_bytes(content)


def test_the_state_of_another_step_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    rewrite_state(tmp_path / "step-00000003", step=4)
    with pytest.raises(CheckpointError, match="state of step 4"):
        last_of(tmp_path)


def test_a_checkpoint_without_its_manifest_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    (tmp_path / "step-00000003" / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="unknown format"):
        last_of(tmp_path)


def as_of_version_1(folder: Path) -> None:
    """Rewrite a checkpoint as version 0.1 wrote it: the checksums of the tensors in the state, and no manifest."""
    manifest, state = (json.loads((folder / name).read_text()) for name in (MANIFEST, STATE))
    files = {name: manifest["files"][name] for name in (WEIGHTS, OPTIMIZER)}
    (folder / STATE).write_text(json.dumps({**state, "format": "singleshot.checkpoint/1", "files": files}))
    (folder / MANIFEST).unlink()


def test_checkpoints_of_version_1_are_read_and_verified(tmp_path: Path) -> None:
    model, _ = save(tmp_path, 3)
    folder = tmp_path / "step-00000003"
    as_of_version_1(folder)
    again = network()
    last_of(tmp_path).load_weights(again)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    load_all(last_of(tmp_path))
    flip(folder / WEIGHTS)
    with pytest.raises(CheckpointError, match="sha256"):
        load_all(last_of(tmp_path))
    (folder / STATE).write_text((folder / STATE).read_text().replace('"step": 3', '"step": 2'))
    with pytest.raises(CheckpointError, match="state of step 2"):
        last_of(tmp_path)


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    save(tmp_path, 3)
    file = tmp_path / "step-00000003" / STATE
    content = json.loads(file.read_text())
    missing = json.dumps({key: value for key, value in content.items() if key != "step"})
    for text in ["", "{", "[]", "{}", '{"format": "other"}', "[" * 100_000, '{"format": 3}', missing]:
        file.write_text(text)
        accept(file.parent, STATE)
        with pytest.raises(CheckpointError, match="missing or damaged") as caught:
            Checkpoints(tmp_path).last()
        assert str(file) in str(caught.value)


def test_a_pickle_in_place_of_weights_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    folder = tmp_path / "step-00000003"
    torch.save(network().state_dict(), folder / WEIGHTS)
    last = last_of(tmp_path)
    with pytest.raises(CheckpointError, match="damaged"):
        last.load_weights(network())
    accept(folder, WEIGHTS)
    last = last_of(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        last.load_weights(network())


def test_a_checkpoint_of_another_network_names_the_tensors(tmp_path: Path) -> None:
    save(tmp_path, 3)
    last = last_of(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"is a checkpoint of another network: size mismatch for 0\.weight: .*\[4, 1"
    ):
        last.load_weights(network(8))
    other = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.Linear(3, 3))
    with pytest.raises(CheckpointError, match=r'Unexpected key\(s\) in state_dict: .*"0\.bias"') as caught:
        last.load_weights(other)
    assert "Missing" not in str(caught.value)  # 1.weight and 1.bias have another shape
    assert len(str(caught.value)) < 1000
    with pytest.raises(CheckpointError, match="which the network does not have"):
        last.load_optimizer(other, torch.optim.SGD(other.parameters()))


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path: Path) -> None:
    finish(save_on_a_full_disk(tmp_path))
    assert names(tmp_path) == ["step-00000001"]
    last_of(tmp_path).load_weights(nn.Linear(100, 100))
