"""What to do next with a model: how far its scores can be trusted, and the command that improves them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from singleshot.evaluation.gain import METHODS, Gain
from singleshot.evaluation.verdict import Level, Verdict

TRUST: dict[Level, str] = {
    "good": "Take a score as the probability of being right, on data like these.",
    "near": "Take a score as the probability of being right, except for the small error above, on data like these.",
    "fair": "Take the scores as a rough guide, not as probabilities.",
    "bad": "Do not take the scores as probabilities.",
    "unclear": "These examples are too few to tell how far the scores can be trusted.",
}
MOST = 0.5
"""Share of the calibration error that a method must fix to be called the fix of most of it."""
SCALING_NAMES = {"vector": "vector scaling", "isotonic": "isotonic regression", "histogram": "histogram binning"}
DEFAULTS = {"split": "test", "weights": "last", "device": "auto", "bins": 20, "method": "temperature"}


def command_line(command: str, *arguments: Path | str, **options: Any) -> str:
    """Return a singleshot command that can be pasted into a shell; options with their default value are omitted.

    >>> command_line("evaluate", Path("-a b.npz"), labels_are="names", split="test", classwise=True, replicates=None)
    "singleshot evaluate './-a b.npz' --labels-are names --classwise"
    """
    # A path that starts with "-" would be read as a flag.
    words = [f"./{one}" if isinstance(one, Path) and str(one).startswith("-") else str(one) for one in arguments]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not None and value is not False and value != DEFAULTS.get(name):
            words += [flag, str(value)]
    return shlex.join(["singleshot", command, *words])


class Fix(NamedTuple):
    """Commands that calibrate the scores, and what the user must provide for them."""

    commands: list[str]
    needs: str | None


def fix_of_file(path: Path, options: Mapping[str, Any], method: str) -> Fix:
    """Calibrate a file of predictions."""
    labels = ["--fit-labels", "held-out-labels.npy"] if str(options.get("labels") or "").endswith(".npy") else []
    ending = ".csv" if path.suffix.lower() == ".csv" else ".npz"
    given = ("--fit-on", f"held-out{ending}", *labels, "-o", f"calibrated{ending}")
    needs = f"Here held-out{ending} has predictions for labelled examples that are not in this file."
    return Fix([command_line("calibrate", path, *given, method=method, **options)], needs)


def fix_of_run(folder: Path, options: Mapping[str, Any], method: str, *, holds_out: bool) -> Fix:
    """Calibrate a run: write its predictions, fit the method, export the network with a temperature."""
    others = {name: value for name, value in options.items() if name != "split"}
    held_out = "validation.npz" if holds_out else "held-out.npz"
    saved = ("--fit-on", held_out, "--save-scaling", f"{method}.json")
    commands = [
        command_line("evaluate", folder, predictions="test.npz", **others),
        command_line("calibrate", "test.npz", *saved, method=method),
    ]
    if method == "temperature":
        given = ("--temperature", "temperature.json", "-o", "model.onnx")
        commands.append(command_line("export", folder, *given, weights=options.get("weights")))
    if holds_out:
        commands.insert(0, command_line("evaluate", folder, split="validation", predictions=held_out, **others))
        return Fix(commands, None)
    return Fix(commands, "Here held-out.npz has predictions for labelled images that the network was not trained on.")


def next_step(
    found: Verdict,
    gain: Gain | None,
    fix: Callable[[str], Fix],
    *,
    method: str = "temperature",
    of_training: bool = False,
) -> dict[str, Any]:
    """What to do: trust, an action, the expected gain and commands; parts that do not apply are None.

    ``fix`` returns the commands for a method of calibration, ``method`` is that to try first.
    """
    step: dict[str, Any] = {"trust": TRUST[found.level], "action": None, "commands": [], "needs": None, "gain": None}
    if of_training:
        trust = "Scores of images that the network was trained on say nothing about new images."
        return {**step, "trust": trust, "action": "Evaluate the run on its test images: --split test."}
    if found.label_advice is not None:
        trust = "These numbers say nothing about the scores as long as the labels are wrong."
        return {**step, "trust": trust, "action": "Check the labels first, as described above."}
    if found.level == "unclear":
        needed = "hundreds" if found.needed is None else f"about {found.needed:,}"
        return {**step, "action": f"Evaluate more examples: {needed} are needed."}
    if found.level in {"good", "near"}:
        return {**step, "action": "To act only on sure predictions, choose a threshold below."}
    shown_gain = None if gain is None else gain.to_dict()
    if gain is not None and not gain.helps:
        *methods, last = METHODS
        tried = f"None of {', '.join(methods)} and {last}"
        action = f"{tried} helped on {gain.count:,} examples that it was not fitted on."
        return {**step, "action": action, "gain": shown_gain}
    action = "Calibrate them on held-out predictions:"
    if gain is not None:
        method, part = gain.method, "most" if gain.fixed >= MOST else "a part"
        action = f"One temperature fixes {part} of this:"
        if method != "temperature":
            action = f"One temperature fixes too little of this, but {SCALING_NAMES[method]} fixes {part} of it:"
    commands, needs = fix(method)
    return {**step, "action": action, "commands": commands, "needs": needs, "gain": shown_gain}
