"""Update a strength from this process's part of the examples, then with others in one process; save the outcomes."""

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
    state = strength.state_dict()
    nan = logits.clone()
    nan[0, 0] = math.nan
    bad_in_one = {
        "NaN": (nan, labels),
        "text": ("logits", labels),
        "three dimensions": (logits.unsqueeze(0), labels),
        "classes": (logits[:, :3], labels.clamp(max=2)),
        "rows": (logits[:-1], labels) if rank == 0 else (logits, labels[:-1]),  # as many in total
    }
    errors = {}
    for name, bad in bad_in_one.items():
        try:
            strength.update(
                logits=bad[0] if rank == 0 or name == "rows" else logits,
                labels=bad[1] if rank == 0 or name == "rows" else labels,
            )
        except (TypeError, ValueError) as error:  # the same in both processes: none waits for the other
            errors[name] = str(error)
    outcome = {"state": state, "kept": strength.state_dict() == state, "errors": errors}
    good_in_one = {"float32": (logits.float(), labels.int()), "empty": (logits[:0], labels[:0])}
    for good in good_in_one.values():
        strength.update(logits=good[0] if rank == 0 else logits, labels=good[1] if rank == 0 else labels)
    (folder / f"{rank}.json").write_text(json.dumps(outcome), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
