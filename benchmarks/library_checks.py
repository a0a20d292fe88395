"""The rows of docs/comparison.md: each is a function that runs one library and returns the text of its cell.

    python benchmarks/library_checks.py netcal          prints a line of JSON per row; compare_libraries.py runs this

A right answer is computed here with numpy. A feature is reported as missing ("no") only if the library's source defines
no class and no function whose name matches the pattern of the row.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import importlib.metadata
import importlib.util
import json
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from library_adapters import Library, Netcal, Probmetrics, ScikitLearn, Scores, Torchmetrics, TorchUncertainty, softmax
from singleshot_adapter import Singleshot

LIBRARIES: dict[str, Library] = {
    "TorchUncertainty": TorchUncertainty(),
    "netcal": Netcal(),
    "torchmetrics": Torchmetrics(),
    "probmetrics": Probmetrics(),
    "scikit-learn": ScikitLearn(),
    "singleshot": Singleshot(),
}

Row = Callable[[Library], str]
ROWS: dict[str, Row] = {}


def row(title: str, *, needs: str = "", pattern: str = "", missing: str = "no") -> Callable[[Row], Row]:
    """Register a row. A library without the method that it needs must not define a name that matches the pattern."""

    def register(run: Row) -> Row:
        def cell(library: Library) -> str:
            if needs and not hasattr(library, needs):
                check_absent(library, pattern)
                return missing
            return run(library)

        ROWS[title] = cell
        return run

    return register


def check_absent(library: Library, pattern: str) -> None:
    spec = importlib.util.find_spec(library.package) if library.package not in sys.modules else None
    folders = spec.submodule_search_locations if spec else sys.modules[library.package].__path__
    defined = re.compile(rf"^ *(?:class|def) (\w*(?:{pattern})\w*)", re.M | re.I)
    for path in (path for folder in folders or () for path in Path(folder).rglob("*.py")):
        if found := defined.findall(path.read_text("utf-8", errors="replace")):
            raise AssertionError(f"{path.name} defines {found[0]}: this feature needs a check")


def compared(found: float, right: float, tolerance: float = 2e-6) -> str:
    shown = f"{found:.3f}" if abs(found) > 1e-3 else f"{found:.1g}"
    return shown if abs(found - right) <= tolerance * max(1, abs(right)) else f"wrong: {shown}"


ECE = r"calibration_?error|\bECE\b"
EDGE = np.array([[1.0, 0.0], [0.95, 0.05]], np.float32), np.array([1, 0])


@row("ECE of confidence 1.0 (wrong) and 0.95 (right): 0.475", needs="ece", pattern=ECE, missing="no ECE")
def ece_at_one(library: Any) -> str:
    return compared(library.ece(*EDGE), 0.475)


@row(
    "ECE of binary probabilities 0.0 (label 1) and 0.03 (label 0): 0.485",
    needs="binary_ece",
    pattern=ECE,
    missing="no ECE",
)
def ece_at_zero(library: Any) -> str:
    return compared(library.binary_ece(np.array([0.0, 0.03], np.float32), np.array([1, 0])), 0.485)


def ece_of(probs: Scores, labels: Scores) -> float:
    confidence, right = probs.max(1).astype(float), probs.argmax(1) == labels
    index = np.ceil(confidence * 15).astype(int) - 1
    return float(sum(abs((confidence - right)[index == one].sum()) for one in range(15)) / len(labels))


@cache
def predictions(examples: int, classes: int, scale: float = 2.0) -> tuple[Scores, Scores]:
    """Logits in float32, and labels drawn from their softmax."""
    generator = np.random.default_rng(0)
    logits = (scale * generator.normal(size=(examples, classes))).astype(np.float32)
    ranks = softmax(logits.astype(float)).cumsum(1) < generator.random((examples, 1))
    return logits, np.minimum(ranks.sum(1), classes - 1)


@row("ECE of logits that happen to lie in [0, 1]: 0.396", needs="ece", pattern=ECE, missing="no ECE")
def ece_of_logits(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    logits = (logits - logits.min()) / np.float32(np.ptp(logits))
    right = ece_of(softmax(logits), labels)
    assert f"{right:.3f}" == "0.396", right
    if not hasattr(library, "ece_of_logits"):
        return f"takes probabilities only, and these without an error: {library.ece(logits, labels):.3f}"
    return compared(library.ece_of_logits(logits, labels), right, tolerance=1e-5)


@cache
def tempered(temperature: float) -> tuple[Scores, Scores]:
    """Float32 logits of which the best temperature is as given."""
    logits, labels = predictions(2000, 50, 3.0)
    exact = logits.astype(float)

    def slope(inverse: float) -> float:
        expected = (softmax(inverse * exact) * exact).sum(1)
        return float((expected - exact[np.arange(len(exact)), labels]).mean())

    low, high = 0.5, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return (exact * temperature * low).astype(np.float32), labels


TEMPERATURE = "temperature_?scal"


@row("temperature fit, float32 logits, best τ = 2.478", needs="temperature", pattern=TEMPERATURE)
def temperature(library: Any) -> str:
    return compared(library.temperature(*tempered(2.478)), 2.478, tolerance=0.01)


@row("the same logits in float64", needs="temperature", pattern=TEMPERATURE)
def double_temperature(library: Any) -> str:
    logits, labels = tempered(2.478)
    return compared(library.temperature(logits.astype(float), labels), 2.478, tolerance=0.01)


@row("temperature fit, float32 logits, best τ = 12", needs="temperature", pattern=TEMPERATURE)
def high_temperature(library: Any) -> str:
    return compared(library.temperature(*tempered(12.0)), 12.0, tolerance=0.01)


def large() -> tuple[Scores, Scores]:
    logits, labels = predictions(100_000, 10)
    return softmax(logits), labels


@row(
    "state of the ECE after 100,000 examples of 10 classes",
    needs="state_bytes",
    pattern="merge_state",
    missing="no state",
)
def state(library: Any) -> str:
    return f"{library.state_bytes(*large()):,} bytes"


@row("state of the classwise ECE after the same", needs="classwise_bytes", pattern="classwise_?(ece|calibration)")
def classwise_state(library: Any) -> str:
    return f"{library.classwise_bytes(*large()):,} bytes"


@row("merges the states of two halves", needs="merged_ece", pattern="merge_state")
def merge(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    probs = softmax(logits)
    found = library.merged_ece([(probs[:500], labels[:500]), (probs[500:], labels[500:])])
    return "yes" if abs(found - ece_of(probs, labels)) < 1e-6 else "wrong"


@row("Brier score of several classes", needs="brier", pattern="brier")
def brier(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    right = float(np.square(softmax(logits.astype(float)) - np.eye(10)[labels]).sum(1).mean())
    found = library.brier(softmax(logits), labels)
    return "yes" if abs(found - right) < 1e-6 else f"wrong: {found:.4f} for {right:.4f}"


@row("debiased ECE of calibrated predictions (the plain one is 0.029)", needs="debiased_ece", pattern="debias|unbias")
def debiased(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    assert f"{ece_of(softmax(logits), labels):.3f}" == "0.029"
    return f"{library.debiased_ece(softmax(logits), labels):.3f}"


@row(
    "95 % interval of their ECE, of which the true value is 0",
    needs="interval",
    pattern="bootstrapper|confidence_interval",
)
def interval(library: Any) -> str:
    import torch

    torch.manual_seed(0)
    logits, labels = predictions(1000, 10)
    low, high = library.interval(softmax(logits), labels)
    return f"{low:.3f} to {high:.3f}" + ("" if low <= 0 else ", without 0")


@row("AURC", needs="aurc", pattern="aurc|risk_?coverage")
def aurc(library: Any) -> str:
    logits, labels = predictions(1000, 10)
    probs = softmax(logits)
    errors = (probs.argmax(1) != labels)[np.argsort(-probs.max(1), kind="stable")]
    right = float((errors.cumsum() / np.arange(1, 1001)).mean())
    found = library.aurc(probs, labels)
    return "yes" if abs(found - right) < 1e-4 else f"{found:.4f} for {right:.4f}"


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


def outcome(library: Library, title: str) -> str:
    """The cell of a row; an exception is an outcome, too."""
    try:
        return ROWS[title](library)
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def main() -> None:
    library = LIBRARIES[sys.argv[1]]
    warnings.simplefilter("ignore")  # of the other libraries
    library.prepare()
    print(json.dumps({"version": importlib.metadata.version(library.distribution)}))
    for title in ROWS:
        with redirect_stdout(sys.stderr):  # what the libraries print
            found = outcome(library, title)
        print(json.dumps({"check": title, "outcome": found}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
