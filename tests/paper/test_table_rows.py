"""Rows of tables from stores made by hand, against numbers that numpy works out from the same runs."""

from __future__ import annotations

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
from singleshot.paper.exhibits import CI, Grid
from singleshot.paper.methods import EPSILONS, base_recipe
from singleshot.paper.published import METRICS, published
from singleshot.paper.table_formats import as_text
from singleshot.paper.tables import TABLES, build_table
from singleshot.training.recipe import Recipe
from singleshot.uncertainty import MEASURES

DIGITS = base_recipe("small", dataset="digits", model="resnet18")


@pytest.mark.parametrize("exhibit", TABLES)
def test_rows_are_the_papers_and_then_ours(exhibit: str) -> None:
    table = full_table(exhibit)
    assert tuple(row.method for row in table.rows if not row.added) == TABLES[exhibit]
    added = [row.method.split("_")[0] for row in table.rows if row.added]
    assert added == ["passes", "smoothing", "focal", *["vwci"] * (len(MEASURES) - 1)]
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
    perfect[0].splits["test"] = forty(0.999, 40)
    table = build_table("table1", BASE, 1, store_of(fake(BASE, "vwci", 0), *perfect))
    oracle = row_of(table, "ci_oracle")
    assert all(
        measured(oracle, metric).mean != measured(row_of(table, method), metric).mean
        for metric, methods in table.best.items()
        for method in methods
    )


def test_a_row_does_not_win_by_the_seeds_it_lacks() -> None:
    lucky = fake(BASE, "vwci", 0)
    lucky.splits["test"] = forty(0.999, 40)
    others = [fake(BASE, method, seed) for method in ("baseline", "focal") for seed in (0, 1)]
    table = build_table("table3", BASE, 2, store_of(lucky, *others))
    assert all(best <= {"baseline", "focal"} and best for best in table.best.values())
    assert "The best measured value of each column is marked, of the rows with the most seeds." in table.notes


def test_nothing_is_the_best_while_most_rows_lack_seeds() -> None:
    runs = [fake(BASE, "baseline", 0), fake(BASE, "baseline", 1), fake(BASE, "vwci", 0), fake(BASE, "focal", 0)]
    table = build_table("table3", BASE, 2, store_of(*runs))
    assert not any(table.best.values())
    assert "No value is marked as the best of its column while most rows lack seeds." in table.notes


def test_a_single_beta_has_no_deviation_and_no_error_over_seeds_in_its_place() -> None:
    table = build_table("table1", BASE, SEEDS, store_of(*(fake(BASE, CI[0], seed) for seed in range(SEEDS))))
    assert measured(row_of(table, "ci"), "ece").standard_error is not None
    line = next(line for line in as_text(table).splitlines() if line.startswith("CI, mean ± std over β"))
    assert "±" not in line.removeprefix("CI, mean ± std over β")


def test_temperature_scaling_is_the_rescaled_baseline() -> None:
    table = full_table("table2")
    for method, trained in (("ts_case1", "baseline"), ("ts_case2", "held_out_baseline")):
        values = np.array([expected(0.6, drawn(trained, seed)[1])["nll"] for seed in range(SEEDS)])
        assert measured(row_of(table, method), "nll").mean == pytest.approx(values.mean())


def test_label_smoothing_has_the_strength_that_held_out_images_chose() -> None:
    nll = {e: expected(*drawn(f"held_out_smoothing_{e:g} validation", 0))["nll"] for e in EPSILONS}
    chosen = min(nll, key=nll.__getitem__)
    table = full_table("table1")
    row = row_of(table, f"smoothing_{chosen:g}")
    assert row.title == f"Label smoothing, ε = {chosen:g}"
    assert measured(row, "ece").mean == pytest.approx(of_runs(f"smoothing_{chosen:g}", "ece").mean())
    assert any("chosen by the NLL on held-out images" in note for note in table.notes)


@pytest.mark.parametrize("exhibit", TABLES)
def test_an_empty_store_gives_dashes_and_says_what_is_missing(exhibit: str) -> None:
    table = build_table(exhibit, DIGITS, SEEDS, store_of())
    assert table.missing == table.runs == len(Grid((exhibit,), (DIGITS,), SEEDS).jobs(store_of()))
    assert f"{table.runs} of {table.runs} runs are missing" in table.caption
    assert all(row.seeds == 0 for row in table.rows)
    assert all(best == frozenset() for best in table.best.values())
    assert as_text(table).count("0 of 3") == len(table.rows)


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
