"""What T stochastic passes cost on other people's models, over one pass: timm, Hugging Face and our own.

    make bench-foreign          or          python benchmarks/foreign_models.py [--rounds 7] [--only vit] [--repeat]

A training step is forward, loss and backward, at batch 8, on one thread. Ours is `ss.sample` with the VWCI loss, beside
the loop over passes and one pass of cross-entropy; medians of interleaved rounds, means where coins decide the work.
Before it is timed, every model's samples are compared with those of the loop, in training and evaluation mode, in
float32 and under autocast: they must be bit-identical. The last column is the largest error of a gradient.
With --repeat, the loop is replaced by one pass over the input repeated T times, in which batch norm mixes the passes.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import copy
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from statistics import fmean, median
from typing import Any

import torch
from timing import interleaved_seconds
from torch import Tensor, nn

import singleshot as ss
from singleshot.sampling.sampler import find_logits

PASSES = 5
BATCH = 8
Make = Callable[[], tuple[nn.Module, dict[str, Tensor]]]


def own(name: str) -> Make:
    return lambda: (ss.create_model(name, num_classes=100), {"x": torch.randn(BATCH, 3, 32, 32)})


def timm_model(name: str, size: int = 128, **options: Any) -> Make:
    def make() -> tuple[nn.Module, dict[str, Tensor]]:
        import timm

        model = timm.create_model(name, num_classes=100, **options)
        return model, {"x": torch.randn(BATCH, 3, size, size)}

    return make


def bert(everywhere: float) -> Make:
    def make() -> tuple[nn.Module, dict[str, Tensor]]:
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
            hidden_dropout_prob=everywhere, attention_probs_dropout_prob=everywhere, classifier_dropout=0.3,
            num_labels=20,
        )  # fmt: skip
        tokens = torch.randint(0, 1000, (BATCH, 64))
        return BertForSequenceClassification(config), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}

    return make


MODELS: dict[str, tuple[Make, dict[str, float]]] = {
    "VGG-16 (own)": (own("vgg16"), {"ours": 1.05}),
    "ResNet-18 (own), stochastic depth": (own("resnet18"), {"ours": 2.5, "one gradient pass": 1.7}),
    "ResNet-34 (own), stochastic depth": (own("resnet34"), {"ours": 3.0, "one gradient pass": 1.9}),
    "WRN-16-8 (own)": (own("wide_resnet16_8"), {"one gradient pass": 2.5}),
    "DenseNet-40-12 (own)": (own("densenet40_12"), {"one gradient pass": 2.5}),
    "timm resnet18, head": (timm_model("resnet18", drop_rate=0.2), {"ours": 1.15}),
    "timm convnext_atto, head": (timm_model("convnext_atto", drop_rate=0.2), {"ours": 1.15}),
    "timm vit_tiny, head": (timm_model("vit_tiny_patch16_224", 224, drop_rate=0.2), {"ours": 1.15}),
    "timm efficientnet_b0, head": (timm_model("efficientnet_b0", drop_rate=0.2), {"ours": 1.25}),
    "timm mobilenetv3_small, head": (timm_model("mobilenetv3_small_100", drop_rate=0.2), {"ours": 1.25}),
    "timm densenet121, head": (timm_model("densenet121", drop_rate=0.2), {"ours": 1.25}),
    "timm coatnet_nano, head": (timm_model("coatnet_nano_rw_224", 224, drop_rate=0.2), {"ours": 1.2}),
    "timm ghostnetv2, head": (timm_model("ghostnetv2_100", drop_rate=0.2), {"ours": 1.3}),
    "timm resnet18, drop path": (timm_model("resnet18", drop_path_rate=0.2), {"ours": 2.7}),
    "timm vit_tiny, drop path": (timm_model("vit_tiny_patch16_224", 224, drop_path_rate=0.2), {"ours": 3.8}),
    "timm efficientnet_b0, drop path": (timm_model("efficientnet_b0", drop_path_rate=0.2), {"ours": 4.0}),
    "timm swin_tiny, drop path": (timm_model("swin_tiny_patch4_window7_224", 224, drop_path_rate=0.2), {"ours": 4.0}),
    "BERT, dropout before the classifier": (bert(0.0), {"ours": 1.3}),
    "BERT, dropout everywhere": (bert(0.1), {"ours": 4.1, "one gradient pass": 2.5}),
}
"""How to make each model, and the ratios it is to reach."""


def prepare_torchvision() -> None:
    """Define the operators that torchvision registers at import: its binary does not load with every CPU build."""
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    globals()["_LIBRARY"] = library  # it lives as long as this


def loop(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    return torch.stack([find_logits(model(**inputs)) for _ in range(PASSES)])


def is_identical(model: nn.Module, inputs: dict[str, Tensor]) -> bool:
    """Whether the samples are those of the loop, in training and in evaluation, in float32 and under autocast."""
    same = True
    for training, autocast in product((True, False), (False, True)):
        twin = copy.deepcopy(model).train(training)
        model.train(training)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            torch.manual_seed(1)
            with nullcontext() if training else ss.stochastic(twin):
                expected = loop(twin, inputs)
            torch.manual_seed(1)
            same = same and torch.equal(ss.sample(model, samples=PASSES, **inputs), expected)  # type: ignore[arg-type]
    model.train()
    return same


def gradient_error(model: nn.Module, inputs: dict[str, Tensor], labels: Tensor) -> float:
    """The largest difference from the loop's gradients, over the largest gradient."""
    twin = copy.deepcopy(model)
    torch.manual_seed(1)
    ss.vwci_loss(loop(twin, inputs), labels).backward()  # type: ignore[no-untyped-call]
    torch.manual_seed(1)
    ss.vwci_loss(ss.sample(model, samples=PASSES, **inputs), labels).backward()  # type: ignore[no-untyped-call, arg-type]
    pairs = [(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters(), strict=True)]
    found = [(ours, loops) for ours, loops in pairs if ours is not None and loops is not None]
    error = max(float((ours - loops).abs().max()) for ours, loops in found)
    return error / max(float(loops.abs().max()) for _, loops in found)


def repeated(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """One pass over a batch of T · B rows."""
    rows = {name: torch.cat([value] * PASSES) for name, value in inputs.items()}
    logits = find_logits(model(**rows))
    return logits.reshape(PASSES, -1, logits.shape[1])


def measure(name: str, rounds: int, *, repeat: bool) -> None:
    make, goals = MODELS[name]
    torch.manual_seed(0)
    model, inputs = make()
    x = next(iter(inputs.values()))
    if "x" in inputs:  # the name of the argument differs between models
        inputs = {next(iter(_arguments(model))): x}
    with torch.no_grad():
        classes = find_logits(model.eval()(**inputs)).shape[1]
    model.train()
    labels = torch.randint(0, classes, (len(x),))
    identical = is_identical(model, inputs)
    error = gradient_error(model, inputs, labels)

    def step(make_logits: Callable[[], Tensor], loss: Callable[..., Tensor]) -> Callable[[], None]:
        def run() -> None:
            model.zero_grad()
            loss(make_logits(), labels).backward()  # type: ignore[no-untyped-call]

        return run

    def sampled(**options: Any) -> Tensor:
        return ss.sample(model, samples=PASSES, **options, **inputs)  # type: ignore[arg-type]

    steps = {
        "one pass": step(lambda: find_logits(model(**inputs)), ss.cross_entropy_loss),
        "ours": step(sampled, ss.vwci_loss),
        "one gradient pass": step(lambda: sampled(gradient_passes=1), ss.vwci_loss),
        "loop": step(lambda: (repeated if repeat else loop)(model, inputs), ss.vwci_loss),
    }
    tosses = "stochastic depth" in name
    seconds = interleaved_seconds(steps, 6 * rounds if tosses else rounds)
    average = fmean if tosses else median
    reference = average(seconds["one pass"])
    cells = []
    for way in ("ours", "one gradient pass", "loop"):
        goal = f" (≤ {goals[way]:g})" if way in goals else ""
        cells.append(f"{average(seconds[way]) / reference:.2f}{goal}")
    print(
        f"| {name} | {reference * 1e3:.0f} ms | {' | '.join(cells)} | {'yes' if identical else 'NO'} | {error:.0e} |",
        flush=True,
    )


def _arguments(model: nn.Module) -> list[str]:
    import inspect

    return list(inspect.signature(model.forward).parameters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--repeat", action="store_true", help="time one batch of T·B rows in place of the loop")
    args = parser.parse_args()
    torch.set_num_threads(1)
    prepare_torchvision()
    other = "repeated input" if args.repeat else "loop"
    print(f"| model | one pass | ours, T = 5 (goal) | one gradient pass (goal) | {other} | same bits | gradients |")
    print("| --- | ---: | ---: | ---: | ---: | --- | ---: |", flush=True)
    for name in MODELS:
        if args.only in name:
            measure(name, args.rounds, repeat=args.repeat)


if __name__ == "__main__":
    main()
