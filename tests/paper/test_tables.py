"""Rows of tables from synthetic results, against numpy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fake_results import (
    BASE,
    SEEDS,
    drawn,
    expected,
    fake,
    forty,
    full_store,
    full_table,
    measured,
    of_runs,
    row_of,
    store_of,
)
from singleshot.paper.experiments import PaperGrid
from singleshot.paper.methods import CI, EPSILONS, base_recipe
from singleshot.paper.published import METRICS, published_rows, rows_beside
from singleshot.paper.regimes import REGIMES
from singleshot.paper.table_formats import as_markdown, as_text
from singleshot.paper.tables import TABLES, build_table, evidence_table
from singleshot.uncertainty import MEASURES

DIGITS = base_recipe("small", dataset="digits", model="resnet18")


def test_the_table_of_a_regime_has_its_rows_and_counts_missing_runs() -> None:
    base = REGIMES["hard-vgg16"].recipe
    table = evidence_table("hard-vgg16", 2, store_of(fake(base, "baseline", 0), fake(base, "held_out_baseline", 0)))
    assert tuple(row.method for row in table.rows) == REGIMES["hard-vgg16"].rows
    assert not any(row.added or row.paper for row in table.rows)
    assert [row.method for row in table.rows if row.seeds] == ["baseline", "ts_case1", "ts_case2"]
    methods = set(REGIMES["hard-vgg16"].rows) - {"ts_case1", "ts_case2"} | {"held_out_baseline"}
    assert (table.runs, table.missing) == (2 * len(methods), 2 * len(methods) - 2)
    assert not any("ε" in note for note in table.notes if "selected" in note)
    assert "Evidence, measured with vgg16 on cifar100" in table.caption


def test_rows_are_those_of_the_paper_in_its_order_and_then_ours() -> None:
    for experiment, methods in TABLES.items():
        table = full_table(experiment)
        assert tuple(row.method for row in table.rows if not row.added) == methods
        added = [row.method.split("_")[0] for row in table.rows if row.added]
        assert added == ["passes", "smoothing", "focal", *["vwci"] * (len(MEASURES) - 1)]
        assert [row.added for row in table.rows] == sorted(row.added for row in table.rows)
        assert table.missing == 0
        assert all(row.seeds == SEEDS for row in table.rows)
        for dataset in ("tiny_imagenet", "cifar100"):
            rows = [row.method for row in published_rows(experiment.removeprefix("table")) if row.dataset == dataset]
            assert tuple(dict.fromkeys(rows)) in (methods, ())


def test_a_cell_is_mean_and_standard_error_over_seeds() -> None:
    for method, metric in product(["baseline", "vwci", "passes", "vwci_hellinger"], METRICS):
        estimate = measured(row_of(full_table("table1"), method), metric)
        values = of_runs(method, metric)
        assert estimate.mean == pytest.approx(values.mean()), (method, metric)
        assert estimate.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(SEEDS)), (method, metric)
        assert estimate.seeds == SEEDS


def test_ci_is_mean_and_sample_deviation_over_beta_of_means_over_seeds() -> None:
    table = full_table("table1")
    ci, oracle = row_of(table, "ci"), row_of(table, "ci_oracle")
    for metric in METRICS:
        means = np.array([of_runs(beta, metric).mean() for beta in CI])
        assert measured(ci, metric).mean == pytest.approx(means.mean()), metric
        assert ci.deviations[metric] == pytest.approx(means.std(ddof=1)), metric
        best = means.argmax() if metric == "accuracy" else means.argmin()
        values = of_runs(CI[best], metric)
        assert measured(oracle, metric).mean == pytest.approx(values.mean()), metric
        assert measured(oracle, metric).standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(SEEDS)), metric


def test_the_best_of_each_column_is_marked_and_never_the_oracle() -> None:
    for experiment in TABLES:
        table = full_table(experiment)
        for metric, best in table.best.items():
            means = {row.method: measured(row, metric).mean for row in table.rows if row.method != "ci_oracle"}
            wanted = (max if metric == "accuracy" else min)(means.values())
            assert best == {method for method, mean in means.items() if mean == wanted}, (experiment, metric)
        assert any("CI[Oracle] is not eligible" in note for note in table.notes) == (experiment == "table1")


def test_the_oracle_is_never_marked_as_best() -> None:
    perfect = [fake(BASE, beta, 0) for beta in CI]
    perfect[0].splits["test"] = forty(0.999, 40)
    table = build_table("table1", BASE, 1, store_of(fake(BASE, "vwci", 0), *perfect))
    oracle = row_of(table, "ci_oracle")
    assert all(
        measured(oracle, metric).mean != measured(row_of(table, method), metric).mean
        for metric, methods in table.best.items()
        for method in methods
    )


def test_rows_with_missing_seeds_are_not_marked_as_best() -> None:
    lucky = fake(BASE, "vwci", 0)
    lucky.splits["test"] = forty(0.999, 40)
    others = [fake(BASE, method, seed) for method in ("baseline", "focal") for seed in (0, 1)]
    table = build_table("table3", BASE, 2, store_of(lucky, *others))
    assert all(best <= {"baseline", "focal"} and best for best in table.best.values())
    assert "The best measured value of each column is marked, of the rows with all seeds." in table.notes


def test_no_row_is_marked_if_most_lack_seeds() -> None:
    runs = [fake(BASE, "baseline", 0), fake(BASE, "baseline", 1), fake(BASE, "vwci", 0), fake(BASE, "focal", 0)]
    table = build_table("table3", BASE, 2, store_of(*runs))
    few = build_table("table3", BASE, 3, store_of(*(fake(BASE, method, 0) for method in ("baseline", "focal"))))
    for one in (table, few):
        assert not any(one.best.values())
        assert "No value is marked as the best of its column while most rows lack seeds." in one.notes


def test_a_single_beta_has_no_deviation() -> None:
    table = build_table("table1", BASE, SEEDS, store_of(*(fake(BASE, CI[0], seed) for seed in range(SEEDS))))
    assert measured(row_of(table, "ci"), "ece").standard_error is not None
    line = next(line for line in as_text(table).splitlines() if line.startswith("CI, mean ± std over β"))
    assert "±" not in line.removeprefix("CI, mean ± std over β")


def test_temperature_scaling_is_the_rescaled_baseline() -> None:
    table = full_table("table2")
    for method, trained in (("ts_case1", "baseline"), ("ts_case2", "held_out_baseline")):
        values = np.array([expected(0.6, drawn(trained, seed)[1])["nll"] for seed in range(SEEDS)])
        assert measured(row_of(table, method), "nll").mean == pytest.approx(values.mean())


def test_label_smoothing_is_selected_on_held_out_images() -> None:
    nll = {e: expected(*drawn(f"held_out_smoothing_{e:g} validation", 0))["nll"] for e in EPSILONS}
    chosen = min(nll, key=nll.__getitem__)
    table = full_table("table1")
    row = row_of(table, f"smoothing_{chosen:g}")
    assert row.title == f"Label smoothing, ε = {chosen:g}"
    assert measured(row, "ece").mean == pytest.approx(of_runs(f"smoothing_{chosen:g}", "ece").mean())
    assert any("selected by the NLL on held-out images" in note for note in table.notes)


def test_an_empty_store_gives_dashes_and_the_number_of_missing_runs() -> None:
    for experiment in TABLES:
        table = build_table(experiment, DIGITS, SEEDS, store_of())
        assert table.missing == table.runs == len(PaperGrid((experiment,), (DIGITS,), SEEDS).jobs(store_of()))
        assert f"{table.runs} of {table.runs} runs are missing" in table.caption
        assert all(row.seeds == 0 for row in table.rows)
        assert not any(table.best.values())
        assert as_text(table).count("0 of 3") == len(table.rows)


def test_an_incomplete_row_states_its_number_of_seeds() -> None:
    store = store_of(
        *(fake(BASE, "baseline", seed) for seed in range(SEEDS)), fake(BASE, "vwci", 0), fake(BASE, "vwci", 2)
    )
    table = build_table("table3", BASE, SEEDS, store)
    line = next(line for line in as_text(table).splitlines() if line.startswith("VWCI "))
    assert line.endswith("2 of 3")
    values = of_runs("vwci", "nll")[[0, 2]]
    assert measured(row_of(table, "vwci"), "nll").mean == pytest.approx(values.mean())


def test_ci_is_averaged_over_common_seeds() -> None:
    runs = [fake(BASE, beta, seed) for beta in CI[:3] for seed in range(2)]
    table = build_table("table1", BASE, SEEDS, store_of(*runs, fake(BASE, CI[0], 2)))
    means = np.array([of_runs(beta, "ece", 2).mean() for beta in CI[:3]])
    assert measured(row_of(table, "ci"), "ece").mean == pytest.approx(means.mean())
    assert row_of(table, "ci").seeds == row_of(table, "ci_oracle").seeds == 2
    assert any("only 3 of 5 β have runs" in note for note in table.notes)


def test_one_seed_has_no_standard_error() -> None:
    table = build_table("tableA", BASE, 1, full_store("tableA", 1))
    assert all(measured(row, metric).standard_error is None for row in table.rows for metric in METRICS)
    assert "±" not in as_text(table)
    assert "1 seed." in table.caption


def test_unknown_tables_and_zero_seeds_are_refused() -> None:
    for experiment, seeds in [("table4", 3), ("fig1", 3), ("table1", 0)]:
        with pytest.raises(ValueError, match=r"experiment|seeds"):
            build_table(experiment, BASE, seeds, store_of())


IN_PAPER = base_recipe("small", dataset="cifar100", model="vgg16")


def test_published_numbers_are_next_to_measured_ones() -> None:
    table = build_table("table1", IN_PAPER, 1, store_of())
    for row in published_rows("1", dataset="cifar100", model="vgg16"):
        assert row_of(table, row.method).paper == row
        numbers = row_of(table, row.method).numbers()
        assert {metric: fields["paper"] for metric, fields in numbers.items()} == row.metrics
        assert {metric: fields["paper_std"] for metric, fields in numbers.items()} == (
            row.std or dict.fromkeys(METRICS)
        )
    assert not any(row.paper for row in table.rows if row.added)
    assert any(note.startswith("Paper: Table 1; width 1, 32×32") for note in table.notes)


def test_missing_rows_of_table_1_are_derived_from_the_supplement() -> None:
    table = build_table("table1", BASE, 1, store_of())
    five = np.array([row.metrics["ece"] for row in published_rows("B", model="resnet18") if row.method in CI])
    ci = row_of(table, "ci").numbers()["ece"]
    assert ci["paper"] == pytest.approx(five.mean(), abs=5e-4)
    assert ci["paper_std"] == pytest.approx(five.std(ddof=1), abs=5e-4)
    assert row_of(table, "ci_oracle").numbers()["ece"]["paper"] == five.min()
    assert any(
        "Paper: Table B, since Table 1 has no resnet18 on cifar100 (CI and CI[Oracle] follow" in note
        for note in table.notes
    )


def test_rows_derived_from_the_supplement_equal_those_of_table_1() -> None:
    pairs = product(("cifar100", "tiny_imagenet"), ("resnet34", "wide_resnet16_8", "densenet40_12"))
    for dataset, model in pairs:
        printed = rows_beside("1", dataset=dataset, model=model)
        derived = rows_beside("none", dataset=dataset, model=model)
        for method in ("baseline", "ci", "vwci", "ci_oracle"):
            assert derived[method].metrics == printed[method].metrics
            assert derived[method].std == printed[method].std


def test_no_paper_numbers_for_other_data_sets() -> None:
    table = build_table("table1", DIGITS, 1, store_of())
    assert not any(row.paper for row in table.rows)
    assert "*paper*" not in as_markdown(table)
