"""The paper's tables compared with each other; known contradictions are listed."""

from __future__ import annotations

from math import fsum
from statistics import fmean, stdev

import pytest

from singleshot.data import list_datasets
from singleshot.models import list_models
from singleshot.paper.published import METRICS, PublishedRow, published_rows

Place = tuple[str, str, str]  # data set, model, method
Differences = dict[tuple[str, str, str, str], tuple[float, float]]  # place and metric: as printed, and as it follows

BETAS = ("ci_0.0001", "ci_0.001", "ci_0.01", "ci_0.1", "ci_1")
FULL = ("baseline", *BETAS, "vwci")
FOUR = ("resnet34", "vgg16", "wide_resnet16_8", "densenet40_12")
BOTH = ("tiny_imagenet", "cifar100")

ROWS = published_rows()


def by_place(*tables: str) -> dict[Place, PublishedRow]:
    return {(row.dataset, row.model, row.method): row for table in tables for row in published_rows(table)}


TABLE_1, FIVE_BETAS = by_place("1"), by_place("A", "B")


def five(dataset: str, model: str, metric: str) -> list[float]:
    return [FIVE_BETAS[dataset, model, beta].metrics[metric] for beta in BETAS]


def digits(metric: str) -> int:
    return 4 if metric == "accuracy" else 3  # 50.82 % is 0.5082


def repeated(rows: list[PublishedRow], methods: tuple[str, ...], elsewhere: dict[Place, PublishedRow]) -> Differences:
    """Rows that differ between two tables."""
    return {
        (row.dataset, row.model, row.method, metric): (value, other)
        for row in rows
        if row.method in methods
        for metric, value in row.metrics.items()
        if value != (other := elsewhere[row.dataset, row.model, row.method].metrics[metric])
    }


@pytest.mark.parametrize(
    ("table", "datasets", "models", "methods"),
    [
        ("1", BOTH, FOUR, ("baseline", "ci", "vwci", "ci_oracle")),
        ("2", BOTH, FOUR, ("ts_case1", "ts_case2", "vwci")),
        ("3", BOTH[::-1], FOUR[:2], ("baseline", "vwci", "vwci_star")),
        ("A", BOTH[:1], ("resnet18", *FOUR), FULL),
        ("B", BOTH[1:], ("resnet18", *FOUR), FULL),
    ],
)
def test_every_model_has_every_method(
    table: str, datasets: tuple[str, ...], models: tuple[str, ...], methods: tuple[str, ...]
) -> None:
    places = [(row.dataset, row.model, row.method) for row in published_rows(table)]
    assert places == [(dataset, model, method) for dataset in datasets for model in models for method in methods]


# Sums computed from the paper independently of the file: the only check of rows that are in one table.
@pytest.mark.parametrize(
    ("table", "sums"),
    [
        ("1", (19.6741, 2.876, 7.107, 56.984, 16.882)),
        ("2", (14.6980, 1.950, 5.106, 42.891, 12.666)),
        ("3", (7.5350, 1.111, 2.721, 22.115, 6.238)),
        ("A", (16.9216, 3.802, 8.158, 85.502, 23.909)),
        ("B", (25.8696, 4.071, 10.708, 41.490, 13.815)),
    ],
)
def test_columns_add_up(table: str, sums: tuple[float, ...]) -> None:
    rows = published_rows(table)
    assert tuple(round(fsum(row.metrics[metric] for row in rows), digits(metric)) for metric in METRICS) == sums


def test_values_are_possible() -> None:
    for row in ROWS:
        assert row.dataset in list_datasets(), row
        assert row.model in list_models(), row
        assert tuple(row.metrics) == METRICS, row
        assert 0 < row.metrics["accuracy"] < 1, row
        assert 0 < row.metrics["ece"] <= row.metrics["mce"] <= 1, row
        assert row.metrics["nll"] > 0, row
        assert 0 < row.metrics["brier"] < 2, row
        assert (row.std is not None) == (row.method == "ci"), row


def test_ci_is_the_mean_and_sample_deviation_over_beta() -> None:
    """Fifths are never halves of the last digit, so rounding is unambiguous."""
    means: Differences = {}
    deviations: Differences = {}
    for (dataset, model, method), row in TABLE_1.items():
        if row.std is None:
            continue
        for metric in METRICS:
            values, place = five(dataset, model, metric), (dataset, model, method, metric)
            if row.metrics[metric] != (mean := round(fmean(values), digits(metric))):
                means[place] = (row.metrics[metric], mean)
            if row.std[metric] != (deviation := round(stdev(values), digits(metric))):
                deviations[place] = (row.std[metric], deviation)
    assert means == {
        ("cifar100", "vgg16", "ci", "accuracy"): (0.7375, 0.7359),
        ("cifar100", "vgg16", "ci", "ece"): (0.183, 0.182),
        ("cifar100", "vgg16", "ci", "mce"): (0.489, 0.481),
        ("cifar100", "vgg16", "ci", "nll"): (1.526, 1.521),
        ("cifar100", "vgg16", "ci", "brier"): (0.436, 0.437),
    }
    assert deviations == {
        ("cifar100", "vgg16", "ci", "accuracy"): (0.0035, 0.0023),
        ("cifar100", "vgg16", "ci", "ece"): (0.079, 0.074),
        ("cifar100", "vgg16", "ci", "mce"): (0.214, 0.220),
        ("cifar100", "vgg16", "ci", "nll"): (0.175, 0.179),
    }


def test_the_oracle_is_the_best_beta_of_each_column() -> None:
    for (dataset, model, method), row in TABLE_1.items():
        if method == "ci_oracle":
            for metric, value in row.metrics.items():
                best = max if metric == "accuracy" else min
                assert value == best(five(dataset, model, metric)), (dataset, model, metric)


def test_repeated_rows_are_the_same_everywhere() -> None:
    assert repeated(published_rows("1"), ("baseline", "vwci"), FIVE_BETAS) == {}
    assert repeated(published_rows("2"), ("vwci",), TABLE_1) == {}
    # The paper prints the names of the two data sets of Table 3 in the wrong order.
    assert repeated(published_rows("3"), ("baseline", "vwci"), TABLE_1) == {}


def test_temperature_keeps_the_accuracy_except_for_two_networks() -> None:
    """A network trained on all images is the baseline; two networks of Table 2 must be different ones."""
    assert {
        (row.dataset, row.model, row.method, "accuracy"): (row.metrics["accuracy"], baseline)
        for row in published_rows("2")
        if row.method == "ts_case1"
        and row.metrics["accuracy"] != (baseline := TABLE_1[row.dataset, row.model, "baseline"].metrics["accuracy"])
    } == {
        ("cifar100", "resnet34", "ts_case1", "accuracy"): (0.7767, 0.7719),
        ("cifar100", "vgg16", "ts_case1", "accuracy"): (0.7366, 0.7378),
    }


def test_temperature_fitted_on_training_images_is_always_worse() -> None:
    """A network is more accurate on its training images, so the temperature fitted on them is too low."""
    for row in published_rows("2"):
        if row.method == "ts_case1":
            baseline = TABLE_1[row.dataset, row.model, "baseline"]
            for metric in METRICS[1:]:
                assert row.metrics[metric] > baseline.metrics[metric], (row, metric)


def test_rows_are_chosen_by_table_dataset_and_model() -> None:
    assert len(ROWS) == 138
    assert {row.table for row in published_rows(dataset="cifar100", model="resnet18")} == {"B"}
    assert published_rows("1", model="resnet18") == []
    assert len(published_rows(model="vgg16", dataset="tiny_imagenet")) == 4 + 3 + 3 + 7


def test_errors_list_the_known_names() -> None:
    with pytest.raises(ValueError, match="no table 'C'; it has 1, 2, 3, A, B"):
        published_rows("C")
    with pytest.raises(ValueError, match="no dataset 'cifar10'; it has tiny_imagenet, cifar100"):
        published_rows(dataset="cifar10")
    with pytest.raises(ValueError, match="no model 'ResNet-34'; it has resnet34, "):
        published_rows(model="ResNet-34")


def test_changing_a_returned_row_has_no_effect_on_later_calls() -> None:
    published_rows("1")[0].metrics["accuracy"] = 1.0
    assert published_rows("1")[0].metrics["accuracy"] == 0.5082
