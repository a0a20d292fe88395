"""Tables from stores made by hand, against numbers that numpy works out from the same runs."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from singleshot.experiments.estimate import Estimate
from singleshot.experiments.job import job_of
from singleshot.experiments.measurements import values_by_seed, versus
from singleshot.experiments.methods import EPSILONS
from singleshot.experiments.paper_rows import paper_rows
from singleshot.experiments.plan import CI, EXHIBITS, Grid
from singleshot.experiments.published import METRICS, published
from singleshot.experiments.result import Rescaled, Result
from singleshot.experiments.scales import base_recipe
from singleshot.experiments.store import ResultStore
from singleshot.experiments.table_formats import (
    CSV_COLUMNS,
    FORMATS,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    latex_escaped,
)
from singleshot.experiments.table_layout import HEADINGS
from singleshot.experiments.table_rows import Row
from singleshot.experiments.tables import TABLES, Table, build_table
from singleshot.metrics import Calibration
from singleshot.training.recipe import Recipe

SEEDS = 3
BASE = base_recipe("small", dataset="cifar100", model="resnet18")
DIGITS = base_recipe("small", dataset="digits", model="resnet18")
IN_PAPER = base_recipe("small", dataset="cifar100", model="vgg16")


def calibration(confidence: float, right: int) -> Calibration:
    """Forty examples of two classes, this many of them right, all with one confidence: ECE and the rest are known."""
    state = Calibration(bins=20)
    labels = (torch.arange(40) >= right).long()
    state.update(probs=torch.tensor([[confidence, 1 - confidence]], dtype=torch.float64).repeat(40, 1), labels=labels)
    return state


def expected(confidence: float, right: int) -> dict[str, float]:
    """The metrics of such examples, written out."""
    accuracy = right / 40
    gap = abs(confidence - accuracy)
    nll = -accuracy * np.log(confidence) - (1 - accuracy) * np.log(1 - confidence)
    brier = 2 * (accuracy * (1 - confidence) ** 2 + (1 - accuracy) * confidence**2)
    return {"accuracy": accuracy, "ece": gap, "mce": gap, "nll": float(nll), "brier": float(brier)}


def drawn(method: str, seed: int) -> tuple[float, int]:
    """Confidence and right answers of a run, different for each."""
    rng = np.random.default_rng([*method.encode(), seed])
    return float(rng.uniform(0.55, 0.95)), int(rng.integers(22, 38))


def fake(base: Recipe, method: str, seed: int, *, fitted_on: str | None = None, seconds: float | None = None) -> Result:
    confidence, right = drawn(method, seed)
    job = job_of(base, method, seed)
    held_out = job.recipe.validation > 0
    splits = {"test": calibration(confidence, right)}
    if held_out:
        splits["validation"] = calibration(*drawn(f"{method} validation", seed))
    return Result(
        job=job,
        seconds=(10.0 + seed) * job.recipe.passes if seconds is None else seconds,
        environment={"machine": "x", "cores": 2},
        splits=splits,
        rescaled=Rescaled(fitted_on or ("validation" if held_out else "train"), 1.5, calibration(0.6, right)),
        variance=None,
    )


def store_of(*results: Result) -> ResultStore:
    return ResultStore(Path("unused"), {result.job.key: result for result in results})


@cache
def full_store(exhibit: str, seeds: int = SEEDS) -> ResultStore:
    """Every run, the four that choose the label smoothing included."""
    selection = [f"held_out_smoothing_{epsilon:g}" for epsilon in EPSILONS]
    smoothing = [f"smoothing_{epsilon:g}" for epsilon in EPSILONS]
    methods = [name for name in EXHIBITS[exhibit] if name != "smoothing"] + selection + smoothing
    return store_of(*(fake(BASE, method, seed) for method in methods for seed in range(seeds)))


@cache
def full_table(exhibit: str) -> Table:
    return build_table(exhibit, BASE, SEEDS, full_store(exhibit))


def row_of(table: Table, method: str) -> Row:
    return next(row for row in table.rows if row.method == method)


def measured(row: Row, metric: str) -> Estimate:
    estimate = row.cells[metric].measured
    assert estimate is not None
    return estimate


def of_runs(method: str, metric: str, seeds: int = SEEDS) -> np.ndarray:
    return np.array([expected(*drawn(method, seed))[metric] for seed in range(seeds)])


@pytest.mark.parametrize("exhibit", TABLES)
def test_rows_are_the_papers_and_then_ours(exhibit: str) -> None:
    table = full_table(exhibit)
    assert tuple(row.method for row in table.rows if not row.added) == TABLES[exhibit]
    added = [row.method.split("_")[0] for row in table.rows if row.added]
    assert added == ["passes", "smoothing", "focal", *["vwci"] * 5]
    assert [row.added for row in table.rows] == sorted(row.added for row in table.rows)
    assert table.missing == 0
    assert all(row.seeds == SEEDS for row in table.rows)


@pytest.mark.parametrize("dataset", ["tiny_imagenet", "cifar100"])
@pytest.mark.parametrize("exhibit", TABLES)
def test_published_rows_are_in_the_order_of_the_paper(exhibit: str, dataset: str) -> None:
    rows = [row.method for row in published(exhibit.removeprefix("table")) if row.dataset == dataset]
    assert tuple(dict.fromkeys(rows)) in (TABLES[exhibit], ())


@pytest.mark.parametrize("method", ["baseline", "vwci", "passes", "vwci_hellinger"])
@pytest.mark.parametrize("metric", METRICS)
def test_a_cell_is_mean_and_standard_error_over_seeds(method: str, metric: str) -> None:
    estimate = measured(row_of(full_table("table1"), method), metric)
    values = of_runs(method, metric)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(SEEDS))
    assert estimate.seeds == SEEDS


@pytest.mark.parametrize("metric", METRICS)
def test_ci_is_mean_and_sample_deviation_over_beta_of_means_over_seeds(metric: str) -> None:
    table = full_table("table1")
    means = np.array([of_runs(beta, metric).mean() for beta in CI])
    ci, oracle = row_of(table, "ci"), row_of(table, "ci_oracle")
    assert measured(ci, metric).mean == pytest.approx(means.mean())
    assert ci.cells[metric].deviation == pytest.approx(means.std(ddof=1))
    chosen = means.argmax() if metric == "accuracy" else means.argmin()
    values = of_runs(CI[chosen], metric)
    assert measured(oracle, metric).mean == pytest.approx(values.mean())
    assert measured(oracle, metric).standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(SEEDS))


@pytest.mark.parametrize("exhibit", TABLES)
def test_the_best_of_each_column_is_marked_and_never_the_oracle(exhibit: str) -> None:
    table = full_table(exhibit)
    for metric, best in table.best.items():
        means = {row.method: measured(row, metric).mean for row in table.rows if row.method != "ci_oracle"}
        wanted = (max if metric == "accuracy" else min)(means.values())
        assert best == {method for method, mean in means.items() if mean == wanted}
    assert any("CI[Oracle] is not eligible" in note for note in table.notes) == (exhibit == "table1")


def test_the_oracle_is_not_marked_where_it_is_better_than_all() -> None:
    perfect = [fake(BASE, beta, 0) for beta in CI]
    perfect[0].splits["test"] = calibration(0.999, 40)
    table = build_table("table1", BASE, 1, store_of(fake(BASE, "vwci", 0), *perfect))
    oracle = row_of(table, "ci_oracle")
    assert all(
        measured(oracle, metric).mean != measured(row_of(table, method), metric).mean
        for metric, methods in table.best.items()
        for method in methods
    )


def test_temperature_scaling_is_the_rescaled_baseline() -> None:
    table = full_table("table2")
    for method, trained in (("ts_case1", "baseline"), ("ts_case2", "held_out_baseline")):
        values = np.array([expected(0.6, drawn(trained, seed)[1])["nll"] for seed in range(SEEDS)])
        assert measured(row_of(table, method), "nll").mean == pytest.approx(values.mean())


def test_a_temperature_from_other_images_does_not_count() -> None:
    results = [fake(BASE, "baseline", seed, fitted_on="validation" if seed else "train") for seed in range(SEEDS)]
    table = build_table("table2", BASE, SEEDS, store_of(*results))
    assert row_of(table, "ts_case1").seeds == 1
    assert any("TS (case 1): 2 runs" in note for note in table.notes)


def test_time_is_a_ratio_to_the_baseline_and_counts_what_a_run_starts_from() -> None:
    table = full_table("table3")
    ratios = {row.method: table.time_ratio(row) for row in table.rows}
    assert ratios["baseline"] == 1
    assert ratios["vwci"] == pytest.approx(5)
    assert ratios["vwci_star"] == pytest.approx(6)
    alone = build_table("table3", BASE, 1, store_of(fake(BASE, "vwci_star", 0)))
    assert alone.time_ratio(row_of(alone, "vwci_star")) is None
    assert row_of(alone, "vwci_star").seeds == 1


def test_unlike_machines_are_mentioned() -> None:
    runs = [fake(BASE, "baseline", seed) for seed in range(2)]
    assert not any("unlike" in note for note in build_table("table3", BASE, 2, store_of(*runs)).notes)
    runs[1].environment["cores"] = 64
    assert any("unlike" in note for note in build_table("table3", BASE, 2, store_of(*runs)).notes)


def test_label_smoothing_has_the_strength_that_held_out_images_chose() -> None:
    nll = {e: expected(*drawn(f"held_out_smoothing_{e:g} validation", 0))["nll"] for e in EPSILONS}
    chosen = min(nll, key=nll.__getitem__)
    table = full_table("table1")
    row = row_of(table, f"smoothing_{chosen:g}")
    assert row.title == f"Label smoothing, ε = {chosen:g}"
    assert measured(row, "ece").mean == pytest.approx(of_runs(f"smoothing_{chosen:g}", "ece").mean())
    assert any("chosen by the NLL on held-out images" in note for note in table.notes)


def test_published_numbers_stand_beside_measured_ones() -> None:
    table = build_table("table1", IN_PAPER, 1, store_of())
    for row in published("1", dataset="cifar100", model="vgg16"):
        cells = row_of(table, row.method).cells
        assert {metric: cell.paper for metric, cell in cells.items()} == row.metrics
        assert [cell.paper_deviation is None for cell in cells.values()] == [row.std is None] * 5
    assert not any(row.has_paper for row in table.rows if row.added)
    assert any(note.startswith("Paper: Table 1; width 1, 32×32") for note in table.notes)


def test_what_table_1_lacks_follows_from_the_supplement() -> None:
    table = build_table("table1", BASE, 1, store_of())
    five = np.array([row.metrics["ece"] for row in published("B", model="resnet18") if row.method in CI])
    ci = row_of(table, "ci").cells["ece"]
    assert ci.paper == pytest.approx(five.mean(), abs=5e-4)
    assert ci.paper_deviation == pytest.approx(five.std(ddof=1), abs=5e-4)
    assert row_of(table, "ci_oracle").cells["ece"].paper == five.min()
    assert any(
        "Paper: Table B, since Table 1 has no resnet18 on cifar100 (CI and CI[Oracle] follow" in note
        for note in table.notes
    )


@pytest.mark.parametrize("model", ["resnet34", "wide_resnet16_8", "densenet40_12"])
def test_rows_derived_from_the_supplement_are_those_that_table_1_prints(model: str) -> None:
    for dataset in ("cifar100", "tiny_imagenet"):
        printed = paper_rows("1", dataset=dataset, model=model)
        derived = paper_rows("none", dataset=dataset, model=model)
        for method in ("baseline", "ci", "vwci", "ci_oracle"):
            assert derived[method].metrics == printed[method].metrics
            assert derived[method].std == printed[method].std


def test_what_the_paper_did_not_measure_has_no_paper_numbers() -> None:
    table = build_table("table1", DIGITS, 1, store_of())
    assert not any(row.has_paper for row in table.rows)
    assert "*paper*" not in as_markdown(table)


@pytest.mark.parametrize("exhibit", TABLES)
def test_an_empty_store_gives_dashes_and_says_what_is_missing(exhibit: str) -> None:
    table = build_table(exhibit, DIGITS, SEEDS, store_of())
    assert table.missing == table.runs == len(Grid((exhibit,), (DIGITS,), SEEDS).jobs(store_of()))
    assert f"{table.runs} of {table.runs} runs are missing" in table.caption
    assert all(row.seeds == 0 for row in table.rows)
    assert all(best == frozenset() for best in table.best.values())
    assert as_text(table).count("0 of 3") == len(table.rows)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_any_part_of_a_store_makes_a_table_in_every_format(data: st.DataObject) -> None:
    exhibit = data.draw(st.sampled_from(list(TABLES)))
    whole = full_store(exhibit)
    keys = data.draw(st.sets(st.sampled_from(sorted(whole.results))))
    store = ResultStore(Path("unused"), {key: whole.results[key] for key in keys})
    table = build_table(exhibit, BASE, SEEDS, store)
    for row in table.rows:
        seeds = {cell.measured.seeds if cell.measured else 0 for cell in row.cells.values()}
        assert seeds == {row.seeds}
        assert row.seeds <= SEEDS
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["missing"] == table.missing
    check_markdown(as_markdown(table))
    check_latex(as_latex(table))
    assert len(list(csv.DictReader(io.StringIO(as_csv(table))))) == 6 * len(table.rows)
    assert max(map(len, as_text(table).splitlines())) <= 120


def test_a_row_with_some_of_its_seeds_says_how_many() -> None:
    store = store_of(
        *(fake(BASE, "baseline", seed) for seed in range(SEEDS)), fake(BASE, "vwci", 0), fake(BASE, "vwci", 2)
    )
    table = build_table("table3", BASE, SEEDS, store)
    line = next(line for line in as_text(table).splitlines() if line.startswith("VWCI "))
    assert line.endswith("2 of 3")
    values = of_runs("vwci", "nll")[[0, 2]]
    assert measured(row_of(table, "vwci"), "nll").mean == pytest.approx(values.mean())


def test_strengths_of_ci_are_averaged_over_the_seeds_they_share() -> None:
    runs = [fake(BASE, beta, seed) for beta in CI[:3] for seed in range(2)]
    table = build_table("table1", BASE, SEEDS, store_of(*runs, fake(BASE, CI[0], 2)))
    means = np.array([of_runs(beta, "ece", 2).mean() for beta in CI[:3]])
    assert measured(row_of(table, "ci"), "ece").mean == pytest.approx(means.mean())
    assert row_of(table, "ci").seeds == row_of(table, "ci_oracle").seeds == 2
    assert any("only 3 of 5 β" in note for note in table.notes)


def test_one_seed_has_no_standard_error() -> None:
    table = build_table("tableA", BASE, 1, full_store("tableA", 1))
    assert all(measured(row, metric).standard_error is None for row in table.rows for metric in METRICS)
    assert "±" not in as_text(table)
    assert "1 seed." in table.caption


@pytest.mark.parametrize(("exhibit", "seeds", "base"), [("table4", 3, BASE), ("fig1", 3, BASE), ("table1", 0, BASE)])
def test_impossible_tables_are_refused(exhibit: str, seeds: int, base: Recipe) -> None:
    with pytest.raises(ValueError, match=r"exhibit|seeds"):
        build_table(exhibit, base, seeds, store_of())


# Formats


def check_markdown(text: str) -> None:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(HEADINGS) + 1}


def check_latex(text: str) -> None:
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert bare.isascii()
    tabular = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in tabular.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(HEADINGS) - 1}
    assert re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)[::-1]


@pytest.mark.parametrize("exhibit", TABLES)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_text_fits_its_width(exhibit: str, width: int) -> None:
    text = as_text(full_table(exhibit), width)
    assert max(map(len, text.splitlines())) <= width
    assert ("left out to fit" in text) == (re.search(r"\d ?± ?\d", text) is None)


def test_text_marks_the_best_and_separates_our_rows() -> None:
    table = full_table("table1")
    body = as_text(table).split("\n\n")[1].splitlines()
    assert sum(line.count("*") for line in body) >= len(METRICS)
    separator = next(number for number, line in enumerate(body) if "added by us" in line)
    assert body[separator - 2].startswith("CI[Oracle]")
    assert body[separator - 1].startswith("  paper")
    assert body[separator + 1].startswith("Cross-entropy, T = 5")


def test_markdown_and_latex_are_well_formed_and_bold_the_best() -> None:
    table = full_table("table3")
    markdown, latex = as_markdown(table), as_latex(table)
    check_markdown(markdown)
    check_latex(latex)
    best = measured(row_of(table, next(iter(table.best["accuracy"]))), "accuracy")
    assert best.standard_error is not None
    percent = f"{100 * best.mean:.2f} ± {100 * best.standard_error:.2f}"
    assert f"**{percent}**" in markdown
    assert r"\textbf{" + percent.replace("±", r"$\pm$") + "}" in latex
    assert r"VWCI\*" in markdown


def test_names_from_outside_do_not_break_a_format() -> None:
    base = Recipe(dataset="/somewhere/a_b|50%\n{c}$&#~^\\", model="resnet18", epochs=2)
    table = build_table("table3", base, 1, store_of())
    assert "somewhere" not in "".join(written(table) for written in FORMATS.values())
    check_latex(as_latex(table))
    check_markdown(as_markdown(table))
    assert next(csv.DictReader(io.StringIO(as_csv(table))))["dataset"] == table.dataset


@given(st.text(alphabet="\\{}$&#%_~^<>|αβγε±×—ab "))
def test_latex_escapes_leave_no_special_character(text: str) -> None:
    bare = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum){}|\\[{}$&#%_]|\$[^$]+\$", "", latex_escaped(text))
    assert not set(bare) & set("\\{}$&#%_~^")


def test_csv_has_every_number_in_full() -> None:
    tables = [build_table("table1", base, SEEDS, full_store("table1")) for base in (BASE, IN_PAPER)]
    lines = list(csv.DictReader(io.StringIO(as_csv(*tables))))
    assert tuple(lines[0]) == CSV_COLUMNS
    assert len(lines) == 6 * sum(len(table.rows) for table in tables)
    by_place = {(line["model"], line["method"], line["metric"]): line for line in lines}
    nll = by_place["resnet18", "vwci", "nll"]
    assert float(nll["mean"]) == pytest.approx(of_runs("vwci", "nll").mean(), rel=1e-12)
    assert (nll["seeds"], nll["dataset"], nll["table"]) == ("3", "cifar100", "table1")
    assert float(by_place["resnet18", "ci", "ece"]["std_over_beta"]) > 0
    assert by_place["vgg16", "vwci", "nll"]["mean"] == ""
    assert float(by_place["vgg16", "ci", "ece"]["paper_std"]) == 0.079
    assert float(by_place["resnet18", "vwci", "train_seconds"]["mean"]) == 55


def test_json_holds_every_row_and_what_is_best() -> None:
    table = full_table("table1")
    content = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert [row["method"] for row in content["rows"]] == [row.method for row in table.rows]
    for row in content["rows"]:
        assert {metric for metric, cell in row["metrics"].items() if cell["best"]} == {
            metric for metric, methods in table.best.items() if row["method"] in methods
        }


# Comparisons


@pytest.mark.parametrize("metric", METRICS)
def test_versus_pairs_the_seeds_that_both_have(metric: str) -> None:
    runs = [fake(BASE, "vwci", seed) for seed in (0, 1, 3)] + [fake(BASE, "baseline", seed) for seed in (0, 1, 2, 3)]
    estimate = versus(BASE, "vwci", "baseline", 4, store_of(*runs))[metric]
    differences = (of_runs("vwci", metric, 4) - of_runs("baseline", metric, 4))[[0, 1, 3]]
    error = differences.std(ddof=1) / np.sqrt(3)
    interval = estimate.interval()
    assert interval is not None
    assert estimate.mean == pytest.approx(differences.mean())
    assert estimate.standard_error == pytest.approx(error)
    # 4.302653 is the 97.5 % quantile of Student's t with two degrees of freedom, from a printed table.
    assert interval == pytest.approx((differences.mean() - 4.302653 * error, differences.mean() + 4.302653 * error))


def test_versus_without_common_seeds_or_with_one() -> None:
    store = store_of(fake(BASE, "vwci", 0), fake(BASE, "baseline", 1))
    assert versus(BASE, "vwci", "baseline", 3, store) == {}
    one = versus(BASE, "vwci", "vwci", 1, store)["ece"]
    assert (one.mean, one.standard_error, one.interval()) == (0, None, None)


def test_versus_knows_temperature_scaling_and_the_chosen_smoothing() -> None:
    store = full_store("table2")
    assert versus(BASE, "vwci", "ts_case2", SEEDS, store)["nll"].seeds == SEEDS
    assert versus(BASE, "vwci", "smoothing", SEEDS, store)["nll"].seeds == SEEDS
    assert values_by_seed(BASE, "smoothing", SEEDS, store_of()) == {}
    with pytest.raises(ValueError, match="method"):
        versus(BASE, "vwci", "other", SEEDS, store)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
def test_estimates_agree_with_numpy(values: list[float]) -> None:
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert estimate.standard_error == pytest.approx(np.std(values, ddof=1) / np.sqrt(len(values)), abs=1e-9)


def test_infinite_values_have_no_standard_error() -> None:
    assert Estimate.of([float("inf"), 1.0]) == Estimate(float("inf"), None, 2)
