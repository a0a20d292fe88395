"""Cost of training besides the network: augmentation, loading and memory; and the time of an epoch.

    make bench          or          python benchmarks/training.py [--rounds 15] [--data-root DIR] [--no-memory]

Uses one thread. The pipeline is compared with a naive one, image by image, in the same interleaved run. CIFAR-100 is
read from the data root; without it, random pixels in its publisher's layout are used instead.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MALLOC_ARENA_MAX"] = "1"  # so that measured memory is memory in use

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from live_memory import peak_bytes
from timing import interleaved_medians
from torch import Tensor

from singleshot.common.loss_names import LossName
from singleshot.data import Images, load_dataset
from singleshot.data.augmentation import Normalization, Shifts, shift_and_mirror
from singleshot.training import preset
from singleshot.training.distributed import Processes
from singleshot.training.recipe import Recipe
from singleshot.training.step import Stepper

BATCH = 128
NETWORKS = ("vgg16", "resnet18")
IMAGES = 45_000  # of CIFAR-100, a tenth being held out as in the small preset
MEAN, STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def one_batch(part: Images, index: Tensor, normalization: Normalization, generator: torch.Generator) -> Tensor:
    shifts = Shifts.draw(len(index), padding=4, mirror=True, generator=generator)
    return normalization(shift_and_mirror(part.images[index], shifts, padding=4))


def one_image_after_another(part: Images, index: Tensor, generator: torch.Generator) -> Tensor:
    """The usual pipeline: each image is padded, cropped, flipped and normalized as floats, then all are stacked."""
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    images = []
    for position in index.tolist():
        image = torch.nn.functional.pad(part.images[position].float() / 255, (4, 4, 4, 4))
        row, column = torch.randint(0, 9, (2,), generator=generator).tolist()
        image = image[:, row : row + 32, column : column + 32]
        if torch.rand((), generator=generator) < 0.5:
            image = image.flip(-1)
        images.append((image - mean) / std)
    return torch.stack(images)


def stepper_for(recipe: Recipe) -> Stepper:
    from singleshot.models import create_model

    torch.manual_seed(0)
    return Stepper(create_model(recipe.model, 100, width=recipe.width), recipe, Processes())


def compare_pipeline(part: Images, rounds: int) -> None:
    generator = torch.Generator().manual_seed(0)
    channels_last = Normalization(MEAN, STD, channels_last=True)
    contiguous = Normalization(MEAN, STD)

    def index() -> Tensor:
        return torch.randint(0, len(part), (BATCH,), generator=generator)

    seconds = interleaved_medians(
        {
            "ours": lambda: one_batch(part, index(), contiguous, generator),
            "ours, channels_last": lambda: one_batch(part, index(), channels_last, generator),
            "one image after another": lambda: one_image_after_another(part, index(), generator),
        },
        rounds,
    )
    print(f"\nCrop, flip and normalize {BATCH} images of 32×32×3, median of {rounds}")
    for name, value in seconds.items():
        print(f"  {name:<24} {BATCH / value:10,.0f} images/s   {value / seconds['ours']:6.2f} x")
    print(f"\nThe same as a share of a step of the small recipes, {BATCH} images")
    for network in NETWORKS:
        for loss in ("cross_entropy", "vwci"):
            step = seconds_of_step(network, loss, BATCH, max(3, rounds // 3))
            share = seconds["ours, channels_last"] / step
            print(f"  {network}, {loss:<14} step {step * 1e3:7.1f} ms   {share:6.1%}")


def seconds_of_step(network: str, loss: LossName, batch: int, rounds: int) -> float:
    recipe = _recipe(network, loss)
    stepper = stepper_for(recipe)
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 100, (batch,))
    started: list[float] = []
    for _ in range(rounds + 2):
        started.append(time.perf_counter())
        stepper.advance(images, labels, 0.1)
    started.append(time.perf_counter())
    return (started[-1] - started[2]) / rounds  # a mean: the cost of a step depends on the blocks that are dropped


def time_epochs(rounds: int) -> None:
    print(f"\nAn epoch of the small CIFAR-100 recipes ({IMAGES:,} images), on one thread")
    for network in NETWORKS:
        for loss in ("cross_entropy", "vwci"):
            recipe = _recipe(network, loss)
            step = seconds_of_step(network, loss, recipe.batch_size, rounds)
            minutes = step * (IMAGES // recipe.batch_size) / 60
            whole = f"all {recipe.epochs} epochs {minutes * recipe.epochs:6.0f} min"
            print(f"  {network}, {loss:<14} {minutes:5.1f} min, {whole}")


def _recipe(network: str, loss: LossName) -> Recipe:
    from dataclasses import replace

    # A strength of 1: all passes carry gradients from the first step, at most the cost of a self-tuned strength.
    return replace(preset("small", model=network, dataset="cifar100"), loss=loss, strength=1.0).resolved()


def time_loading(root: Path, rounds: int) -> None:
    started = time.perf_counter()
    load_dataset("cifar100", data_root=root)
    first = time.perf_counter() - started
    seconds = interleaved_medians({"again": lambda: load_dataset("cifar100", data_root=root)}, rounds)["again"]
    print(f"\nCIFAR-100: decoded once in {first:.2f} s; its cache is loaded in {seconds:.3f} s, median of {rounds}")


MEASURE = """
import json, resource, sys
from dataclasses import replace
from pathlib import Path
import torch
from singleshot.training import preset, train
torch.set_num_threads(1)
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
def recipe(dataset, **options):
    return replace(preset("small", model="vgg16", dataset=dataset), epochs=1, loss="vwci", strength=1.0, **options)
root, work = map(Path, sys.argv[1:])
# A small run first, to load libraries and code.
train(recipe("digits", width=0.03125, train_images=16, batch_size=16), work / "warm-up")
before = resident()
train(recipe("cifar100", validation=0.0), work / "run", data_root=root)
print(json.dumps({"before": before, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def compare_memory(root: Path) -> None:
    """Measure the peak memory of a whole epoch, without that of the libraries."""
    recipe = _recipe("vgg16", "vwci")
    stepper = stepper_for(recipe)
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(0, 100, (BATCH,))
    stepper.advance(images, labels, 0.1)
    parameters = sum(tensor.nbytes for tensor in stepper.model.state_dict().values())
    activations = peak_bytes(lambda: stepper.advance(images, labels, 0.1))
    dataset = load_dataset("cifar100", data_root=root)
    data = dataset.train.images.nbytes + dataset.test.images.nbytes
    needed = data + 2 * parameters + activations  # weights and momentum; gradients are among the activations
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(root), work], capture_output=True, text=True, check=True
        )
    seen = json.loads(done.stdout.splitlines()[-1])
    used = seen["peak"] - seen["before"]
    print("\nMemory of a run, VGG-16 of the small recipe with VWCI on CIFAR-100, one epoch")
    parts = {"data": data, "weights and momentum": 2 * parameters, "a step": activations}
    print("  " + " + ".join(f"{name} {size / 1e6:.0f} MB" for name, size in parts.items()))
    print(f"  the process grew by {used / 1e6:.0f} MB: {used / needed:.2f} x")


def stand_in(root: Path) -> None:
    """Write random pixels in the layout of CIFAR-100."""
    generator = np.random.default_rng(0)
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name, count in (("train.bin", 50_000), ("test.bin", 10_000)):
        records = generator.integers(0, 256, (count, 3074), dtype=np.uint8)
        records[:, 0], records[:, 1] = np.arange(count) % 20, np.arange(count) % 100
        (folder / name).write_bytes(records.tobytes())
    (folder / "fine_label_names.txt").write_text("".join(f"class {number}\n" for number in range(100)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--no-memory", action="store_true", help="skip the memory of an epoch, which takes a minute")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = args.data_root or Path(os.environ.get("SINGLESHOT_DATA", folder))
        os.environ["SINGLESHOT_CACHE"] = str(Path(folder) / "cache")
        if not (root / "cifar-100-binary").is_dir():
            root = Path(folder)
            stand_in(root)
        time_loading(root, args.rounds)
        compare_pipeline(load_dataset("cifar100", data_root=root).train, args.rounds)
        time_epochs(args.rounds)
        if not args.no_memory:
            compare_memory(root)


if __name__ == "__main__":
    main()
