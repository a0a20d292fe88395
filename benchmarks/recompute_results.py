"""Recompute every number of the generated tables from the result files, without the package.

    python benchmarks/recompute_results.py

Reads results/runs, one JSON file per run, and the tables between the markers of README.md, docs/results.md and
docs/results. It imports nothing of singleshot: runs are recognised by their recipes, metrics are computed from the sums
per bin. Prints the number of cells that were compared and every cell that differs; exit code 1 if there is one.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

ROOT = Path(__file__).resolve().parent.parent
MARKED = re.compile(r"<!-- results: ([^\n]*) -->\n(.*?)<!-- end of results -->", re.DOTALL)
SEEDS = 3
BETAS = (1.0, 0.1, 0.01, 0.001, 0.0001)
METRICS = {"acc. %": "accuracy", "ECE": "ece", "MCE": "mce", "NLL": "nll", "Brier": "brier"}
MEASURES = {
    "total variation": "total_variation",
    "epistemic": "epistemic",
    "confident disagreement": "confident_disagreement",
    "mutual information": "mutual_information",
    "Hellinger": "hellinger",
    "unbiased": "unbiased",
}
RENAMED = {"variance": "measure", "epsilon": "label_smoothing"}
ADDED = {
    "gradient_passes": None,
    "strength": 1.0,
    "give_back": None,
    "alpha": "example",
    "track": False,
    "classes": None,
}
SETTINGS = {
    "hard-resnet18": {"dataset": "cifar100", "model": "resnet18", "epochs": 60, "image_size": 16, "train_images": 5000},
    "hard-vgg16": {"dataset": "cifar100", "model": "vgg16", "epochs": 60, "image_size": 32, "train_images": 5000},
    "ten-classes": {"dataset": "cifar100", "model": "resnet18", "epochs": 30, "classes": 10, "padding": 0},
    "ten-classes-augmented": {"dataset": "cifar100", "model": "resnet18", "epochs": 300, "classes": 10, "padding": 2},
    "fashion-mnist": {"dataset": "fashion_mnist", "model": "small_cnn", "epochs": 60, "train_images": 55_000},
    "more-images": {"dataset": "cifar100", "model": "resnet18", "epochs": 30, "train_images": 45_000, "padding": 2},
}
"""What the runs of a regime share."""

Run = dict[str, Any]
Values = dict[int, dict[str, float]]  # by seed


def recipe_of(content: dict[str, Any]) -> dict[str, Any]:
    return {**ADDED, **{RENAMED.get(name, name): value for name, value in content.items()}}


def load() -> list[Run]:
    runs = []
    for path in sorted((ROOT / "results" / "runs").rglob("*.json")):
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            sys.exit(f"{path.relative_to(ROOT)} is damaged ({error}); restore it with git")
        run["recipe"] = recipe_of(run["recipe"])
        runs.append(run)
    return runs


def metrics_of(part: dict[str, Any]) -> dict[str, float]:
    """Accuracy, ECE, MCE, NLL and Brier score from the sums per bin."""
    sums = part["calibration"]["sums"]
    count = sum(sums["count"])
    gaps = [abs(conf - right) for conf, right in zip(sums["confidence"], sums["correct"], strict=True)]
    return {
        "accuracy": sum(sums["correct"]) / count,
        "ece": sum(gaps) / count,
        "mce": max(gap / n for gap, n in zip(gaps, sums["count"], strict=True) if n),
        "nll": sums["nll"] / count,
        "brier": sums["brier"] / count,
    }


# A row of a table: which runs it consists of.

PLAIN = {"validation": 0.0, "strength": 1.0, "alpha": "example", "gradient_passes": None}
AUTO = {"strength": "auto", "validation": 0.1, "alpha": "example"}


def vwci(measure: str = "bhattacharyya", **changes: Any) -> dict[str, Any]:
    return {**PLAIN, "loss": "vwci", "samples": 5, "measure": measure, **changes}


def wanted(title: str) -> dict[str, Any]:  # noqa: PLR0911
    """The recipe fields of a row, and ``rescaled`` if its predictions are those after temperature scaling."""
    title = title.replace("\\", "").replace("*", "")
    one: dict[str, Any] = {"gradient_passes": 1}
    if title in ("Baseline", "baseline", "cross-entropy (baseline)"):
        return {**PLAIN, "loss": "cross_entropy", "samples": 1}
    if title in ("TS (case 1)", "temperature scaling, case 1"):
        return {**PLAIN, "loss": "cross_entropy", "samples": 1, "rescaled": True}
    if title in ("TS (case 2)", "temperature scaling, case 2", "temperature scaling, 10 % held out"):
        return {**PLAIN, "loss": "cross_entropy", "samples": 1, "validation": 0.1, "rescaled": True}
    if found := re.fullmatch(r"CI, β = (.*)", title):
        return {**PLAIN, "loss": "ci", "beta": float(found[1])}
    if found := re.fullmatch(r"[Ll]abel smoothing, ε = (.*)", title):
        return {**PLAIN, "loss": "label_smoothing", "label_smoothing": float(found[1])}
    if (found := re.fullmatch(r"VWCI, (.*?)(, k = 1|, gradients through one pass)?", title)) and found[1] in MEASURES:
        return vwci(MEASURES[found[1]], **(one if found[2] else {}))
    fixed: dict[str, dict[str, Any]] = {
        "Cross-entropy, T = 5": {**PLAIN, "loss": "cross_entropy", "samples": 5},
        "Cross-entropy, T = 5, k = 1": {**PLAIN, "loss": "cross_entropy", "samples": 5, **one},
        "Focal, γ = 3": {**PLAIN, "loss": "focal", "focus": 3.0},
        "VWCI": vwci(),
        "VWCI, k = 1": vwci(**one),
        "VWCI, α permuted in batch": vwci(alpha="permuted"),
        "VWCI, mean α of the batch": vwci(alpha="batch_mean"),
        "VWCI, c · (1 − BC)": vwci(alpha="scaled"),
        "Self-tuned smoothing": {**AUTO, "loss": "label_smoothing", "give_back": 0.2},
        "Self-tuned smoothing, on 90 %": {**AUTO, "loss": "label_smoothing", "give_back": 0.0},
        "Self-tuned VWCI": {**AUTO, "loss": "vwci", **one, "give_back": 0.2},
        "Self-tuned VWCI, on 90 %": {**AUTO, "loss": "vwci", **one, "give_back": 0.0},
    }
    names = {
        "cross-entropy, T = 5": "Cross-entropy, T = 5",
        "focal, γ = 3": "Focal, γ = 3",
        "VWCI, default measure": "VWCI",
        "self-tuned label smoothing, 10 % held out, then trained on": "Self-tuned smoothing",
        "self-tuned VWCI, 10 % held out, then trained on": "Self-tuned VWCI",
    }
    return fixed[names.get(title, title)]


class Network:
    """The runs of one data set, network and training."""

    def __init__(self, runs: list[Run], setting: dict[str, Any]) -> None:
        self.runs = [run for run in runs if all(run["recipe"][name] == value for name, value in setting.items())]

    def select(self, fields: dict[str, Any], *, star: float = 0.0) -> dict[int, Run]:
        """Runs by seed; ``star`` is the learning rate of runs that start from another run, relative to that run's."""
        fields = {name: value for name, value in fields.items() if name != "rescaled"}
        found: dict[int, Run] = {}
        for run in self.runs:
            recipe, start = run["recipe"], run["start"]
            is_star = bool(start) and math.isclose(recipe["learning_rate"], star * start["learning_rate"])
            if (is_star if star else not start) and all(recipe[name] == value for name, value in fields.items()):
                if recipe["seed"] in found:
                    raise ValueError(f"{run['key']} and {found[recipe['seed']]['key']} belong to the same row and seed")
                found[recipe["seed"]] = run
        return {seed: run for seed, run in sorted(found.items()) if seed < SEEDS}

    def row(self, title: str) -> dict[int, Run]:
        """Runs of a row by seed."""
        clean = title.replace("\\", "")
        if clean.startswith("VWCI*"):
            return self.select(vwci(), star=5.0 if "5 ×" in clean else 1.0)
        if "ε from held-out" in clean or "chosen ε" in clean or clean == "Label smoothing":
            return self.select(wanted(f"Label smoothing, ε = {self.chosen_epsilon():g}"))
        return self.select(wanted(title))

    def chosen_epsilon(self) -> float:
        """The ε with the lowest NLL on held-out images."""
        tried: dict[float, float] = {}
        for run in self.runs:
            recipe = run["recipe"]
            is_candidate = recipe["loss"] == "label_smoothing" and recipe["validation"] == 0.1 and recipe["seed"] == 0
            if is_candidate and recipe["strength"] != "auto":
                tried[recipe["label_smoothing"]] = metrics_of(run["splits"]["validation"])["nll"]
        return min(tried, key=tried.__getitem__)

    def values(self, title: str) -> Values:
        """Metrics and processor time of a row by seed."""
        if title.startswith(("CI, mean", r"CI\[Oracle")):
            return self._over_beta(oracle="Oracle" in title)
        rescaled = wanted_or_empty(title).get("rescaled")
        runs = self.row(title)
        return {
            seed: metrics_of(run["rescaled"] if rescaled else run["splits"]["test"]) | self._time(run)
            for seed, run in runs.items()
        }

    def _time(self, run: Run) -> dict[str, float]:
        spent = run["cpu_seconds"]
        if run["start"]:
            first = self.select(wanted("Baseline")).get(run["recipe"]["seed"])
            spent = (
                None if spent is None or first is None or first["cpu_seconds"] is None else spent + first["cpu_seconds"]
            )
        return {} if spent is None else {"seconds": spent}

    def _over_beta(self, *, oracle: bool) -> Values:
        by_beta = [values for beta in BETAS if (values := self.values(f"CI, β = {beta:g}"))]
        if not by_beta:
            return {}
        common = sorted(set.intersection(*(set(values) for values in by_beta)))
        if not oracle:
            names = ("accuracy", "ece", "mce", "nll", "brier", "seconds")
            return {
                seed: {
                    name: fmean(values[seed][name] for values in by_beta)
                    for name in names
                    if all(name in values[seed] for values in by_beta)
                }
                for seed in common
            }
        chosen = {}
        for name in METRICS.values():
            means = [fmean(values[seed][name] for seed in common) for values in by_beta]
            chosen[name] = by_beta[means.index(max(means) if name == "accuracy" else min(means))]
        return {seed: {name: values[seed][name] for name, values in chosen.items()} for seed in common}

    def deviation_over_beta(self, name: str) -> float:
        """Standard deviation of the means over seeds."""
        by_beta = [values for beta in BETAS if (values := self.values(f"CI, β = {beta:g}"))]
        common = sorted(set.intersection(*(set(values) for values in by_beta)))
        return stdev(fmean(values[seed][name] for seed in common) for values in by_beta)


def paper_network(runs: list[Run], dataset: str, model: str) -> Network:
    """The runs of the paper's tables at the small scale."""
    return Network(runs, {"dataset": dataset, "model": model, "epochs": 30, "classes": None, "padding": 0})


def wanted_or_empty(title: str) -> dict[str, Any]:
    try:
        return wanted(title)
    except KeyError:
        return {}


# Cells as text.


def estimate(values: list[float], *, scale: float = 1, digits: int = 3, spread: float | None = None) -> str:
    mean = f"{scale * fmean(values):.{digits}f}"
    error = spread if spread is not None else stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return mean if error is None else f"{mean} ± {scale * error:.{digits}f}"


def difference(values: list[float], *, scale: float, digits: int) -> str:
    mean = fmean(values)
    text = f"{scale * mean:+.{digits}f}"
    if len(values) < 2:
        return text
    width = student.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return f"{text} [{scale * (mean - width):+.{digits}f}, {scale * (mean + width):+.{digits}f}]"


def time_ratio(network: Network, title: str) -> str:
    one, base = network.values(title), network.values("Baseline")
    ratios = [
        one[seed]["seconds"] / base[seed]["seconds"]
        for seed in one
        if "seconds" in one[seed] and "seconds" in base.get(seed, {})
    ]
    if not ratios:
        return "—"
    return f"{fmean(ratios):.1f}×" + (f" ({len(ratios)})" if len(ratios) != len(one) else "")


Cell = tuple[str, str]  # printed, recomputed


def metric_cells(network: Network, row: dict[str, str]) -> Iterator[Cell]:
    title = row["method"]
    values = network.values(title)
    over_beta = "over β" in title
    for heading, name in METRICS.items():
        if heading in row:
            scale, digits = (100, 2) if name == "accuracy" else (1, 3)
            each = [one[name] for one in values.values()]
            spread = network.deviation_over_beta(name) if over_beta else None
            printed = row[heading].replace("**", "")
            yield printed, estimate(each, scale=scale, digits=digits, spread=spread)
    if r"\[Oracle" not in title:
        yield row["time"], time_ratio(network, title)
    yield row["seeds"], str(len(values)) if len(values) == SEEDS else f"{len(values)} of {SEEDS}"


def summary_cells(network: Network, row: dict[str, str]) -> Iterator[Cell]:
    values = network.values(row["method"])
    yield row["acc. %"], f"{100 * fmean(one['accuracy'] for one in values.values()):.1f}"
    for heading in ("ECE", "NLL"):
        yield row[heading], estimate([one[METRICS[heading]] for one in values.values()])
    yield row["time"], time_ratio(network, row["method"])
    yield row["seeds"], str(len(values))


def difference_cells(network: Network, row: dict[str, str], title: str, against: str) -> Iterator[Cell]:
    one, other = network.values(title), network.values(against)
    common = sorted(one.keys() & other.keys())
    for heading, name in METRICS.items():
        if heading in row:
            scale, digits = (100, 2) if name == "accuracy" else (1, 3)
            each = [one[seed][name] - other[seed][name] for seed in common]
            yield row[heading], difference(each, scale=scale, digits=digits)
    yield row["seeds"], str(len(common))


def detail_cells(network: Network, row: dict[str, str]) -> Iterator[Cell]:
    found = [run["details"] for run in network.row(row["method"]).values()]

    def errors(split: str, score: str) -> Callable[[dict[str, Any]], float | None]:
        return lambda one: one["errors"][split][score]

    columns: dict[str, Callable[[dict[str, Any]], float | None]] = {
        "AURC": lambda one: one["aurc"],
        "AUROC, confidence": errors("test", "confidence"),
        "AUROC, α": errors("test", "alpha"),
        "AUROC, confidence (training)": errors("train", "confidence"),
        "AUROC, α (training)": errors("train", "alpha"),
        "ECE, shifted": lambda one: fmean(x["ece"] for strengths in one["shift"].values() for x in strengths),
        "ECE, largest shift": lambda one: fmean(strengths[4]["ece"] for strengths in one["shift"].values()),
    }
    for heading, read in columns.items():
        values = [read(one) for one in found]
        known = [value for value in values if value is not None]
        yield row[heading], estimate(known) if len(known) == len(values) else "—"
    yield row["seeds"], str(len(found))


def cost_cells(network: Network, row: dict[str, str]) -> Iterator[Cell]:
    title = row["method"]
    if r"\[Oracle" in title:
        by_seed = [network.values(f"CI, β = {beta:g}") for beta in BETAS]
        spent = {seed: sum(one[seed]["seconds"] for one in by_seed) for seed in by_seed[0]}
    else:
        spent = {seed: one["seconds"] for seed, one in network.values(title).items() if "seconds" in one}
    if title == "Label smoothing":
        candidates = [
            run["cpu_seconds"]
            for run in network.runs
            if run["recipe"]["loss"] == "label_smoothing"
            and run["recipe"]["validation"]
            and run["recipe"]["strength"] == 1.0
        ]
        spent = {seed: one + sum(candidates) for seed, one in spent.items()}
    base = network.values("Baseline")
    yield row["time"], f"{fmean(one / base[seed]['seconds'] for seed, one in spent.items() if seed in base):.1f}×"
    searched, starts = title == "Label smoothing", title.startswith(r"VWCI\*")
    yield row["runs"], str(len(BETAS) if r"\[Oracle" in title else 1 + 6 * searched + starts)
    recipe = next(iter(network.row(title).values()))["recipe"] if r"\[Oracle" not in title else {"validation": 0}
    held_out, lost = recipe["validation"] or 0.1 * searched, 0 if recipe.get("give_back") else recipe["validation"]
    for heading, share in (("held out", held_out), ("never trained on", lost)):
        yield row[heading], f"{share:.0%}" if share else "none"


def headline_cells(runs: list[Run], regimes: list[str], row: dict[str, str]) -> Iterator[Cell]:
    title, *printed = row.values()
    for regime, cell in zip(regimes, printed, strict=True):
        values = list(Network(runs, SETTINGS[regime]).values(title).values())
        if values or cell != "—":
            accuracy, ece, nll = (fmean(one[name] for one in values) for name in ("accuracy", "ece", "nll"))
            few = "" if len(values) == SEEDS else f" ({len(values)} of {SEEDS} seeds)"
            yield cell, f"{accuracy:.1%} · {ece:.3f} · {nll:.3f}{few}"


def effect_cells(runs: list[Run], row: dict[str, str]) -> Iterator[Cell]:
    title = row["ECE"]
    for regime in row.keys() - {"ECE"}:
        if title == "Baseline":
            found = [each["ece"] for each in Network(runs, SETTINGS[regime]).values(title).values()]
            yield row[regime], estimate(found) if len(found) == SEEDS else "—"
        else:
            yield row[regime], ece_difference(Network(runs, SETTINGS[regime]), title, "Baseline")


def pair_cells(runs: list[Run], row: dict[str, str]) -> Iterator[Cell]:
    one, other = row["difference in ECE"].split(" minus ")
    for regime in row.keys() - {"difference in ECE"}:
        yield row[regime], ece_difference(Network(runs, SETTINGS[regime]), one, other)


def ece_difference(network: Network, one: str, other: str) -> str:
    first, second = network.values(one), network.values(other)
    each = [first[seed]["ece"] - second[seed]["ece"] for seed in first.keys() & second.keys()]
    return difference(each, scale=1, digits=3) if len(each) == SEEDS else "—"


AGAINST = {"CI, mean over β": "CI, mean ± std over β", "label smoothing (chosen ε)": "Label smoothing"}


def cells(runs: list[Run], marker: list[str], row: dict[str, str]) -> Iterator[Cell]:
    match marker:
        case ["table", _, dataset, model]:
            network = paper_network(runs, dataset, model)
            if not row["method"].startswith("*") and row["seeds"] not in ("", f"0 of {SEEDS}"):
                yield from metric_cells(network, row)
        case ["versus", method, dataset, model]:
            network = paper_network(runs, dataset, model)
            title = "VWCI" if method == "vwci" else "VWCI, total variation"
            yield from difference_cells(network, row, title, AGAINST.get(row["against"], row["against"]))
        case ["evidence", regime]:
            yield from metric_cells(Network(runs, SETTINGS[regime]), row)
        case ["summary", regime]:
            yield from summary_cells(Network(runs, SETTINGS[regime]), row)
        case ["differences", regime]:
            yield from difference_cells(Network(runs, SETTINGS[regime]), row, row["minus the baseline"], "Baseline")
        case ["details", regime]:
            yield from detail_cells(Network(runs, SETTINGS[regime]), row)
        case ["cost", regime]:
            yield from cost_cells(Network(runs, SETTINGS[regime]), row)
        case ["effects", *_]:
            yield from effect_cells(runs, row)
        case ["pairs", *_]:
            yield from pair_cells(runs, row)
        case ["headline", *names]:
            yield from headline_cells(runs, names, row)
        case [kind, *_] if kind not in ("figure", "alpha"):  # figures have no cells, searches their own files
            raise ValueError(f"no recomputation for the marker {' '.join(marker)!r}")


def rows_of(text: str) -> Iterator[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    if lines:
        split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        for cells_of_line in split[2:]:
            yield dict(zip(split[0], cells_of_line, strict=True))


def compare(page: str, runs: list[Run]) -> tuple[int, list[str]]:
    """Return the number of cells of a page that were compared, and a line for each that differs."""
    compared, wrong = 0, []
    for marker, text in MARKED.findall(page):
        for row in rows_of(text):
            for printed, recomputed in cells(runs, marker.split(), row):
                compared += 1
                if printed != recomputed:
                    wrong.append(f"{marker}, {next(iter(row.values()))}: {printed} ≠ {recomputed}")
    return compared, wrong


def main() -> None:
    runs, total, failed = load(), 0, 0
    for path in (ROOT / "README.md", ROOT / "docs" / "results.md", *sorted((ROOT / "docs" / "results").glob("*.md"))):
        compared, wrong = compare(path.read_text(encoding="utf-8"), runs)
        total, failed = total + compared, failed + len(wrong)
        for line in wrong:
            print(f"{path.relative_to(ROOT)}: {line}")
    print(f"{total} cells compared, {failed} differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
