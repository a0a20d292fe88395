"""The paper's numbers beside measured ones."""

from __future__ import annotations

import numpy as np
import pytest

from fake_results import BASE, row_of, store_of
from singleshot.paper.exhibits import CI
from singleshot.paper.methods import base_recipe
from singleshot.paper.published import published
from singleshot.paper.table_formats import as_markdown
from singleshot.paper.table_rows import paper_rows
from singleshot.paper.tables import build_table

DIGITS = base_recipe("small", dataset="digits", model="resnet18")
IN_PAPER = base_recipe("small", dataset="cifar100", model="vgg16")


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
