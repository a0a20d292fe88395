"""One of several processes: read a share of the predictions, reduce across all processes, save the result.

python reduce_worker.py RANK WORLD_SIZE FOLDER FIRST:LAST...
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import singleshot as ss


def main(rank: int, world_size: int, folder: Path, shares: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world_size)
    predictions = torch.load(folder / "predictions.pt", weights_only=True)
    for case, share in enumerate(shares):
        first, last = map(int, share.split(":"))
        mine = ss.Calibration(classwise=True)
        if first < last:
            mine.update(logits=predictions["logits"][first:last], labels=predictions["labels"][first:last])
        if mine.all_reduce() is not mine:
            sys.exit("all_reduce must return the state it was called on")
        mine.save(folder / f"case{case}-rank{rank}.json")
    for name, mismatched in {
        "bins": ss.Calibration(bins=10 + rank),
        "classwise": ss.Calibration(classwise=rank == 0),
        "measure": ss.VarianceHistogram(measure=("hellinger", "unbiased")[rank]),
    }.items():
        try:
            mismatched.all_reduce()
        except ValueError as error:
            (folder / f"{name}{rank}").write_text(str(error))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
