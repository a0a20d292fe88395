"""Processes that make runs: none of them ever sees Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: only where nothing was spawned before, the first child is a special one.
TWO_CHILDREN = """
import signal
from multiprocessing import get_context
from singleshot.grid.engines.local import interrupts_held_back

def say_what_is_blocked():
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)

if __name__ == "__main__":
    with interrupts_held_back():
        for _ in range(2):
            child = get_context("spawn").Process(target=say_what_is_blocked)
            child.start()
            child.join()
    say_what_is_blocked()
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_even_the_first_child_never_sees_an_interrupt(tmp_path: Path) -> None:
    script = tmp_path / "two_children.py"
    script.write_text(TWO_CHILDREN, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
