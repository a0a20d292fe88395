"""Tables as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from fake_results import BASE, SEEDS, full_store, full_table, measured, of_runs, row_of, store_of
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import base_recipe
from singleshot.paper.published import METRICS
from singleshot.paper.table_formats import (
    CSV_COLUMNS,
    FORMATS,
    HEADINGS,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    escape_latex,
)
from singleshot.paper.tables import TABLES, build_table
from singleshot.training.recipe import Recipe

IN_PAPER = base_recipe("small", dataset="cifar100", model="vgg16")


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


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_incomplete_stores_give_tables_in_every_format(data: st.DataObject) -> None:
    experiment = data.draw(st.sampled_from(list(TABLES)))
    whole = full_store(experiment)
    keys = data.draw(st.sets(st.sampled_from(sorted(whole.results))))
    store = ResultStore(Path("unused"), {key: whole.results[key] for key in keys})
    table = build_table(experiment, BASE, SEEDS, store)
    for row in table.rows:
        assert {estimate.seeds for estimate in row.measured.values()} == ({row.seeds} if row.seeds else set())
        assert row.seeds <= SEEDS
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["missing"] == table.missing
    check_markdown(as_markdown(table))
    check_latex(as_latex(table))
    assert len(list(csv.DictReader(io.StringIO(as_csv(table))))) == 6 * len(table.rows)
    assert max(map(len, as_text(table).splitlines())) <= 120


def test_text_fits_its_width() -> None:
    for experiment in TABLES:
        for width in (80, 100, 120):
            text = as_text(full_table(experiment), width)
            assert max(map(len, text.splitlines())) <= width
            assert ("omitted to fit" in text) == (re.search(r"\d ?± ?\d", text) is None)


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


def test_special_characters_in_names_are_escaped() -> None:
    base = Recipe(dataset="/somewhere/a_b|50%\n{c}$&#~^\\", model="resnet18", epochs=2)
    table = build_table("table3", base, 1, store_of())
    assert "somewhere" not in "".join(convert(table) for _, convert in FORMATS.values())
    check_latex(as_latex(table))
    check_markdown(as_markdown(table))
    assert next(csv.DictReader(io.StringIO(as_csv(table))))["dataset"] == table.dataset


@given(st.text(alphabet="\\{}$&#%_~^<>|αβγε±×—ab "))
def test_latex_escapes_leave_no_special_character(text: str) -> None:
    bare = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum){}|\\[{}$&#%_]|\$[^$]+\$", "", escape_latex(text))
    assert not set(bare) & set("\\{}$&#%_~^")


def test_csv_has_every_number_in_full() -> None:
    tables = [build_table("table1", base, SEEDS, full_store("table1")) for base in (BASE, IN_PAPER)]
    lines = [line for table in tables for line in csv.DictReader(io.StringIO(as_csv(table)))]
    assert tuple(lines[0]) == CSV_COLUMNS
    assert len(lines) == 6 * sum(len(table.rows) for table in tables)
    by_place = {(line["model"], line["method"], line["metric"]): line for line in lines}
    nll = by_place["resnet18", "vwci", "nll"]
    assert float(nll["mean"]) == pytest.approx(of_runs("vwci", "nll").mean(), rel=1e-12)
    assert (nll["seeds"], nll["dataset"], nll["table"]) == ("3", "cifar100", "table1")
    assert float(by_place["resnet18", "ci", "ece"]["std_over_beta"]) > 0
    assert by_place["vgg16", "vwci", "nll"]["mean"] == ""
    assert float(by_place["vgg16", "ci", "ece"]["paper_std"]) == 0.079
    time = by_place["resnet18", "vwci", "time_ratio"]
    assert float(time["mean"]) == pytest.approx(5)
    assert float(time["standard_error"]) == pytest.approx(0, abs=1e-12)
    assert by_place["vgg16", "vwci", "time_ratio"]["mean"] == ""


def test_json_has_every_row_and_marks_the_best() -> None:
    table = full_table("table1")
    content = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert [row["method"] for row in content["rows"]] == [row.method for row in table.rows]
    assert content["rows"][0]["time_ratio"] == {"mean": 1.0, "standard_error": 0.0, "seeds": SEEDS}
    assert content["rows"][-1]["time_ratio"]["mean"] == pytest.approx(5)
    for row in content["rows"]:
        assert {metric for metric, cell in row["metrics"].items() if cell["best"]} == {
            metric for metric, methods in table.best.items() if row["method"] in methods
        }
