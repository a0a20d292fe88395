from __future__ import annotations

import json
import math
from typing import Any

import pytest

from singleshot.training.training_state import RunState, Sums


def stored(state: RunState) -> dict[str, Any]:
    """As a checkpoint gives it back."""
    content: dict[str, Any] = json.loads(json.dumps(state.to_dict(), allow_nan=False))
    return content


def test_what_was_kept_is_there_again_to_the_last_bit() -> None:
    state = RunState(7, 1, {"step": 5, "nll": 0.1}, Sums(2, 0.3, 0.1, 1, 0.7), 1 / 3, 0.1, {"scale": 2.0})
    assert RunState.from_dict(stored(state)) == state


def test_time_of_the_processor_that_was_not_recorded_stays_unknown() -> None:
    older = stored(RunState(seconds=5.0))
    del older["processor_seconds"]
    state = RunState.from_dict(older)
    for _ in range(2):  # however often it is continued
        state.processor_seconds += 1.0
        assert math.isnan(state.processor_seconds)
        assert stored(state)["processor_seconds"] is None
        state = RunState.from_dict(stored(state))


@pytest.mark.parametrize("change", [{"step": -1}, {"step": 0.5}, {"sums": None}, {"processor_seconds": []}])
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the checkpoint's state is not that of a run"):
        RunState.from_dict({**stored(RunState()), **change})
