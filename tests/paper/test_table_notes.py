"""Captions and notes of tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fake_results import BASE, DATA, SEEDS, fake, full_store, full_table, row_of, store_of
from singleshot.grid.job import Result
from singleshot.paper.methods import EPSILONS
from singleshot.paper.table_formats import as_text
from singleshot.paper.tables import build_table


def notes_of(*runs: Result, experiment: str = "table3") -> str:
    return "\n".join(build_table(experiment, BASE, SEEDS, store_of(*runs)).notes)


def test_the_caption_has_the_number_of_images() -> None:
    assert ", 5,000 of 50,000 training images, 10,000 test images, 30 epochs" in full_table("table1").caption
    assert ", 5,000 training images, 30 epochs" in build_table("table1", BASE, 1, store_of()).caption
    everything = replace(BASE, train_images=None)
    table = build_table("table1", everything, 1, store_of(fake(everything, "baseline", 0)))
    assert ", all 50,000 training images, 10,000 test images," in table.caption


def test_a_smoothing_at_the_end_of_the_candidates_is_mentioned() -> None:
    for selected, end in ((EPSILONS[0], "smallest"), (EPSILONS[1], None), (EPSILONS[-1], "largest")):
        runs = [fake(BASE, f"held_out_smoothing_{one:g}", 0, best_validation=one == selected) for one in EPSILONS]
        notes = notes_of(*runs)
        assert "was selected by the NLL on held-out images" in notes
        assert ("The selected ε is the" in notes) == (end is not None)
        if end is not None:
            candidates = ", ".join(map(str, EPSILONS))
            assert f"The selected ε is the {end} candidate ({candidates}): a value beyond it may be better." in notes


def test_selecting_beta_from_the_table_is_called_an_oracle() -> None:
    for experiment, mentioned in (("table1", False), ("tableA", True), ("tableB", True)):
        notes = "\n".join(full_table(experiment).notes)
        assert ("picking the best row of this table amounts to CI[Oracle]" in notes) == mentioned


def test_temperatures_without_a_finite_optimum_are_mentioned() -> None:
    runs = [fake(BASE, "baseline", seed, bounded=seed > 0) for seed in range(SEEDS)]
    runs += [fake(BASE, "held_out_baseline", seed) for seed in range(SEEDS)]
    table = build_table("table2", BASE, SEEDS, store_of(*runs))
    assert "TS (case 1): no finite temperature in 2 of 3 runs (a bound was used)." in table.notes
    assert row_of(table, "ts_case2").remark is None


def test_different_versions_machines_and_images_are_mentioned() -> None:
    first, second = fake(BASE, "baseline", 0), fake(BASE, "baseline", 1)
    alike = notes_of(first, second)
    assert "Runs of" not in alike
    assert "different" not in alike
    other = replace(second, environment={**second.environment, "revision": "xyz", "torch": "3"})
    assert "Runs of revisions abc, xyz; torch 2, 3." in notes_of(first, other)
    other = replace(second, environment={"singleshot": "1", "torch": "2", "machine": "x", "cores": 64})
    assert "Runs of revisions None, abc." in notes_of(first, other)
    assert "different machines" in notes_of(first, other)
    assert "different images" in notes_of(first, replace(second, data={**DATA, "test": 99}))
    known, other = (replace(run, environment={**run.environment, "processor": run.job.key}) for run in (first, second))
    assert "different machines" in notes_of(known, other)
    assert "different machines" not in notes_of(first, other)


def test_a_revision_cannot_write_to_the_terminal_or_break_a_line() -> None:
    first, second = fake(BASE, "baseline", 0), fake(BASE, "baseline", 1)
    hostile = replace(second, environment={**second.environment, "revision": "\x1b[2Jevil\n| x |"})
    notes = build_table("table3", BASE, SEEDS, store_of(first, hostile)).notes
    assert any("evil" in note for note in notes)
    assert not any("\x1b" in note or "\n" in note for note in notes)


def test_a_time_of_fewer_seeds_states_their_number() -> None:
    runs = [fake(BASE, method, seed) for method in ("baseline", "vwci") for seed in range(SEEDS)]
    runs[0] = replace(runs[0], cpu_seconds=None)
    table = build_table("table3", BASE, SEEDS, store_of(*runs))
    vwci = next(line for line in as_text(table).splitlines() if line.startswith("VWCI "))
    assert "5.0× (2)" in vwci
    assert any("in brackets the number of seeds" in note for note in table.notes)


def test_unknown_processor_time_is_a_dash() -> None:
    table = full_table("table3")
    ratios = {row.method: row.time.mean for row in table.rows if row.time is not None}
    assert ratios["baseline"] == 1
    assert ratios["vwci"] == pytest.approx(5)
    assert ratios["vwci_star"] == pytest.approx(6)
    assert any(note.startswith("Time: processor time of training") and "dash" not in note for note in table.notes)
    unknown = build_table("table3", BASE, 1, store_of(fake(BASE, "baseline", 0, cpu_seconds=None)))
    assert next(line for line in as_text(unknown).splitlines() if line.startswith("Baseline")).split()[-2] == "—"
    assert any("a dash if it is not known" in note for note in unknown.notes)
    assert "—" not in as_text(build_table("table3", BASE, SEEDS, full_store("table3")))
