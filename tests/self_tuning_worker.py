"""Update a strength from this process's part of the examples, then with NaN in one process; save both outcomes."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import singleshot as ss


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = slice(0, 30) if rank == 0 else slice(30, None)
    with np.load(folder / "examples.npz") as examples:
        logits, labels = torch.from_numpy(examples["logits"])[mine], torch.from_numpy(examples["labels"])[mine]
    strength = ss.SelfTunedStrength("vwci")
    strength.update(logits=logits, labels=labels)
    if rank == 0:
        logits[0, 0] = math.nan
    try:
        strength.update(logits=logits, labels=labels)
        message = ""
    except ValueError as error:  # in both processes: none waits for the other
        message = str(error)
    outcome = {"state": strength.state_dict(), "error": message}
    (folder / f"{rank}.json").write_text(json.dumps(outcome), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
