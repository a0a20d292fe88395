"""The generated tables of a regime of the evidence, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from singleshot.grid.store import ResultStore
from singleshot.paper.evidence import details, total_cost
from singleshot.paper.published import CI_MEAN, METRICS
from singleshot.paper.regimes import REGIMES
from singleshot.paper.seed_means import Runs
from singleshot.paper.table_formats import MISSING, as_markdown, format_difference, format_time, markdown_table
from singleshot.paper.tables import TITLES, evidence_table

DETAILS = {
    "aurc": "AURC",
    "auroc_confidence_test": "AUROC, confidence",
    "auroc_alpha_test": "AUROC, α",
    "auroc_confidence_train": "AUROC, confidence (training)",
    "auroc_alpha_train": "AUROC, α (training)",
    "shift_ece": "ECE, shifted",
    "largest_shift_ece": "ECE, largest shift",
}


SUMMARY = (
    *("baseline", "ts_case2", "smoothing_0.1", "passes", "vwci", "vwci_one_gradient", "vwci_permuted"),
    *("vwci_total_variation", "vwci_total_variation_one_gradient", "auto_smoothing", "auto_vwci"),
)
"""The rows of the short table."""
EFFECTS = (
    *("passes", "vwci", "smoothing_0.1", "vwci_total_variation_one_gradient"),
    *("auto_vwci", "auto_smoothing", "ts_case2"),
)
"""The rows of the table that compares regimes."""
PAIRS = (
    ("vwci", "passes"),
    ("vwci", "smoothing_0.1"),
    ("vwci_permuted", "vwci"),
    ("vwci_batch_mean", "vwci"),
    ("vwci_total_variation", "vwci"),
    ("vwci_scaled", "vwci_total_variation"),
    ("vwci_one_gradient", "vwci"),
    ("vwci_total_variation_one_gradient", "vwci_total_variation"),
    ("vwci_total_variation_one_gradient", "vwci"),
    ("auto_vwci", "vwci"),
    ("auto_vwci", "auto_smoothing"),
    ("auto_vwci", "ts_case2"),
    ("auto_smoothing", "ts_case2"),
)
"""The rows of the table of pairs: the ECE of the first method minus that of the second."""


def effects_table(regimes: Sequence[str], seeds: int, store: ResultStore) -> str:
    """The baseline's ECE in several regimes, and the differences of other methods to it."""
    networks = [Runs(REGIMES[regime].recipe, seeds, store) for regime in regimes]
    baseline = [_title("baseline"), *(_baseline_ece(runs) for runs in networks)]
    rows = [[_title(row), *(_ece_difference(runs, row, "baseline") for runs in networks)] for row in EFFECTS]
    return markdown_table(["ECE", *regimes], [baseline, *rows])


def pairs_table(regimes: Sequence[str], seeds: int, store: ResultStore) -> str:
    """The ECE of one method minus that of another in several regimes."""
    networks = [Runs(REGIMES[regime].recipe, seeds, store) for regime in regimes]
    rows = [
        [f"{_title(one)} minus {_title(other)}", *(_ece_difference(runs, one, other) for runs in networks)]
        for one, other in PAIRS
    ]
    return markdown_table(["difference in ECE", *regimes], rows)


def _baseline_ece(runs: Runs) -> str:
    """Return it with its standard error, or a dash unless all seeds are there."""
    found = runs.estimates("baseline")
    return str(found["ece"]) if found and found["ece"].seeds == runs.seeds else MISSING


def _ece_difference(runs: Runs, one: str, other: str) -> str:
    """Return it with its interval, or a dash unless both methods have all seeds."""
    found = runs.differences(one, other)
    return format_difference("ece", found["ece"]) if found and found["ece"].seeds == runs.seeds else MISSING


def _summary(regime: str, seeds: int, store: ResultStore) -> str:
    """The rows that matter most, mean ± standard error over seeds."""
    runs = Runs(REGIMES[regime].recipe, seeds, store)
    lines = []
    for row in SUMMARY:
        found = runs.estimates(row)
        if found:
            accuracy = f"{100 * found['accuracy'].mean:.1f}"
            time = format_time(runs.time_ratio(row), found["ece"].seeds)
            lines.append([_title(row), accuracy, str(found["ece"]), str(found["nll"]), time, str(found["ece"].seeds)])
    return markdown_table(["method", "acc. %", "ECE", "NLL", "time", "seeds"], lines)


def _metrics(regime: str, seeds: int, store: ResultStore) -> str:
    """The rows that have runs, on the test images."""
    table = evidence_table(regime, seeds, store)
    return as_markdown(replace(table, rows=tuple(row for row in table.rows if row.seeds)))


def _differences(regime: str, seeds: int, store: ResultStore) -> str:
    """Each row minus the baseline, with 95 % intervals over seeds."""
    runs = Runs(REGIMES[regime].recipe, seeds, store)
    lines = []
    for row in REGIMES[regime].rows[1:]:
        found = runs.differences(row, "baseline")
        if found:
            cells = [format_difference(metric, found[metric]) for metric in METRICS if metric != "mce"]
            lines.append([_title(row), *cells, str(found["ece"].seeds)])
    return markdown_table(["minus the baseline", "acc. %", "ECE", "NLL", "Brier", "seeds"], lines)


def _details(regime: str, seeds: int, store: ResultStore) -> str:
    """How well scores rank errors, and calibration under shift."""
    runs = Runs(REGIMES[regime].recipe, seeds, store)
    lines = []
    for row in REGIMES[regime].rows:
        found = {} if row.startswith(("ts_", CI_MEAN)) else details(runs, row)
        if found:
            cells = [str(found[name]) if name in found else MISSING for name in DETAILS]
            lines.append([_title(row), *cells, str(found["aurc"].seeds)])
    return markdown_table(["method", *DETAILS.values(), "seeds"], lines)


def _cost(regime: str, seeds: int, store: ResultStore) -> str:
    """What one network takes, with searches and held-out images."""
    runs = Runs(REGIMES[regime].recipe, seeds, store)
    lines = []
    for row in REGIMES[regime].rows:
        cost = None if row == CI_MEAN else total_cost(runs, row)
        if cost is not None:
            shares = [f"{share:.0%}" if share else "none" for share in (cost.held_out, cost.lost)]
            lines.append([_title(row), str(cost.runs), f"{cost.time:.1f}×", *shares])
    return markdown_table(["method", "runs", "time", "held out", "never trained on"], lines)


def _title(row: str) -> str:
    return TITLES[row].replace("[", r"\[").replace("]", r"\]").replace("*", r"\*")


EVIDENCE_TABLES: dict[str, Callable[[str, int, ResultStore], str]] = {
    "summary": _summary,
    "evidence": _metrics,
    "differences": _differences,
    "details": _details,
    "cost": _cost,
}
"""By the first word of a marker."""
