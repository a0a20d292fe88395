"""The rows of docs/comparison.md about features, and about what an installation costs."""

from __future__ import annotations

import importlib.metadata
import re
import resource
import subprocess
import sys
from typing import Any

from comparison_rows import TEMPERATURE, predictions, row
from library_adapters import softmax


def network(noise: Any) -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), noise, torch.nn.Linear(8, 3))


def passes_differ(library: Any, model: Any) -> bool:
    import torch

    inputs = torch.randn(6, 4)
    passes = library.passes(model, inputs).detach()
    return bool((passes[0] != passes[1]).any())


@row("Monte Carlo dropout that leaves batch norm alone", needs="passes", pattern="mc_?dropout|monte_?carlo_?dropout")
def dropout(library: Any) -> str:
    import torch

    model = network(torch.nn.Dropout(0.5)).train()
    before = {name: value.clone() for name, value in model[1].state_dict().items()}
    assert passes_differ(library, model.eval())
    unchanged = all(torch.equal(value, before[name]) for name, value in model[1].state_dict().items())
    return "yes" if unchanged else "wrong: changes it"


@row("Monte Carlo passes of stochastic depth", needs="passes", pattern="stochastic_?depth|drop_?path")
def depth(library: Any) -> str:
    import torch

    class DropPath(torch.nn.Module):
        """As timm's: drops whole examples while it is in training mode."""

        def __init__(self) -> None:
            super().__init__()
            self.drop_prob = 0.5

        def forward(self, inputs: Any) -> Any:
            if not self.training:
                return inputs
            return inputs * torch.empty(len(inputs), 1).bernoulli_(0.5) / 0.5

    try:
        return "yes" if passes_differ(library, network(DropPath()).eval()) else "no"
    except ValueError:
        return "refused"


@row(
    "train-time losses, run on a batch that is all correct",
    needs="losses",
    pattern="focal|mmce|mdca|confidence_?penalty",
)
def losses(library: Any) -> str:
    import torch

    bad = []
    found = library.losses()
    for name, loss in found.items():
        logits = (200 * torch.eye(10)).requires_grad_()
        loss(logits, torch.arange(10)).backward()
        if logits.grad is None or not logits.grad.isfinite().all():
            bad.append(name)
    return f"{len(found)}" + (f", NaN gradient: {', '.join(bad)}" if bad else "")


@row("post-hoc methods that fit", needs="scalings", pattern=TEMPERATURE)
def scalings(library: Any) -> str:
    logits, labels = predictions(1000, 4)
    failed = []
    found = library.scalings()
    for name, fit in found.items():
        try:
            fit(logits, labels)
        except Exception as error:  # noqa: PERF203  any failure of a library is a result
            failed.append(f"{name} ({type(error).__name__})")
            print(name, repr(error)[:300], file=sys.stderr)
    return f"{len(found) - len(failed)}" + (f"; failed: {', '.join(failed)}" if failed else "")


@row("reliability diagram", needs="diagram", pattern="reliability|calibration_?display")
def diagram(library: Any) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.use("Agg")
    logits, labels = predictions(1000, 10)
    found = library.diagram(softmax(logits), labels)
    return "yes" if isinstance(found, Figure) else f"no: {type(found).__name__}"


@row("report page with metrics and intervals", needs="page", pattern="html_?report|report_?(html|page)")
def page(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    return "yes" if "<html" in library.page(softmax(logits), labels) else "no"


@row("reads files of predictions", needs="formats", pattern="(read|load)_predictions")
def formats(library: Any) -> str:
    return ", ".join(ending.removeprefix(".") for ending in library.formats())


@row("command line")
def command(library: Any) -> str:
    scripts = importlib.metadata.distribution(library.distribution).entry_points.select(group="console_scripts")
    return ", ".join(f"`{script.name}`" for script in scripts) or "no"


@row("exports a network, checked against it", needs="export", pattern="to_onnx|onnx_export|export_(?:onnx|model)")
def export(library: Any) -> str:
    import torch

    library.export(network(torch.nn.Dropout(0.5)).eval(), torch.randn(6, 4), "torch-export", ".pt2")
    return "yes"


@row("packages that pip installs")
def packages(library: Any) -> str:
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

    seen: set[str] = set()
    queue = [library.distribution]
    while queue:
        name = canonicalize_name(queue.pop())
        if name in seen:
            continue
        seen.add(name)
        needed = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
        queue += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return f"{len(seen)}{library.without}"


@row("CPU time to import its ECE (scikit-learn: its calibrator)")
def import_time(library: Any) -> str:
    seconds = []
    hidden = f"import sys; sys.modules.update(dict.fromkeys({library.added}))\n"
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", hidden + library.statement]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            found = re.findall(r"import of (\w+) halted|No module named '(\w+)", done.stderr)
            return f"fails without {''.join(found[-1])}"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(seconds):.1f} s"
