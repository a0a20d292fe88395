"""docs/build_results.py generates the text between the markers of a page from the stored runs and keeps the rest."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from statistics import fmean
from types import ModuleType

import pytest
import recompute_results

from fake_results import BASE, fake, full_store, full_table, store_of
from singleshot.grid.store import ResultStore
from singleshot.paper.methods import CI
from singleshot.paper.regimes import REGIMES
from singleshot.paper.seed_means import Estimate
from singleshot.paper.table_formats import as_markdown, format_difference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
VERSUS = "<!-- results: versus vwci cifar100 resnet18 -->\n<!-- end of results -->\n"
FIGURE = "<!-- results: figure 2 cifar100 resnet18 vgg16 -->\nold\n<!-- end of results -->\n"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a temporary folder for pictures."""
    module = script()
    monkeypatch.setattr(module, "IMAGES", tmp_path / "docs" / "images")
    return module


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_results", DOCS / "build_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_agree_with_the_stored_runs() -> None:
    module = script()
    store = ResultStore.open(module.RUNS)
    assert store.skipped == []
    for path in module.PAGES:
        text = path.read_text(encoding="utf-8")
        assert module.page_with_results(text, store, path.parent) == text, "run `make results`"


def test_an_independent_recomputation_agrees_and_notices_a_changed_digit() -> None:
    page = (DOCS / "results" / "evidence.md").read_text(encoding="utf-8")
    runs = recompute_results.load()
    compared, wrong = recompute_results.compare(page, runs)
    assert compared > 100
    assert wrong == []
    # Of a mean, since the digit of a title such as "k = 1" selects other runs.
    digits = [found.start() for found in re.finditer(r"\d(?= ± \d[^|\n]*\|)", page)]
    changed = digits[len(digits) // 2]
    edited = page[:changed] + str((int(page[changed]) + 1) % 10) + page[changed + 1 :]
    assert len(recompute_results.compare(edited, runs)[1]) == 1


def test_text_between_markers_is_replaced(build: ModuleType) -> None:
    page = "Before\n<!-- results: table 1 cifar100 resnet18 -->\nold\n<!-- end of results -->\nbetween\n" + VERSUS
    made = build.page_with_results(page, full_store("table1"), DOCS)
    assert made.startswith("Before\n<!-- results: table 1 cifar100 resnet18 -->\n**Table 1 of the paper")
    assert as_markdown(full_table("table1")) in made
    assert "\n<!-- end of results -->\nbetween\n<!-- results: versus vwci cifar100 resnet18 -->\n| against |" in made
    assert "old" not in made
    assert build.page_with_results(made, full_store("table1"), DOCS) == made
    assert build.page_with_results("no mark", store_of(), DOCS) == "no mark"


def test_differences_have_students_interval() -> None:
    # 4.302653 is the 97.5 % quantile of Student's t with two degrees of freedom: 0.2 ± 4.302653 · 0.1 / √3.
    assert format_difference("ece", Estimate.of([0.1, 0.2, 0.3])) == "+0.200 [-0.048, +0.448]"
    assert format_difference("accuracy", Estimate.of([0.1])) == "+10.00"


def test_differences_to_every_method_with_runs(build: ModuleType) -> None:
    lines = build.page_with_results(VERSUS, full_store("table1"), DOCS).splitlines()[3:-1]
    titles = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    unknown = "temperature scaling, case 2"  # table 1 needs no runs on 90 % of the images
    assert titles == [title for title in build.AGAINST.values() if title != unknown]
    assert all(line.count("[") - line.count(r"\[") == 5 for line in lines)
    assert all(line.endswith(" | 3 |") for line in lines)


def test_headline_has_a_row_per_method_and_marks_means_of_fewer_seeds(build: ModuleType) -> None:
    page = "<!-- results: headline hard-resnet18 hard-vgg16 -->\n<!-- end of results -->\n"
    base = REGIMES["hard-resnet18"].recipe
    three = [fake(base, "baseline", seed) for seed in range(3)]
    two = [fake(base, "vwci", seed) for seed in range(2)]
    head, _, *rows = build.page_with_results(page, store_of(*three, *two), DOCS).splitlines()[1:-1]
    assert head == "| accuracy · ECE · NLL | ResNet-18, 100 classes | VGG-16, 100 classes |"
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(build.HEADLINE.values())
    accuracy, ece, nll = (
        fmean(getattr(run.test.compute(), name) for run in two) for name in ("accuracy", "ece", "nll")
    )
    assert f"| VWCI, default measure | {accuracy:.1%} · {ece:.3f} · {nll:.3f} (2 of 3 seeds) | — |" in rows
    assert "seeds" not in rows[0]
    assert rows[1] == "| label smoothing, ε = 0.1 | — | — |"


def test_effects_are_differences_to_the_baseline_with_all_seeds(build: ModuleType) -> None:
    page = "<!-- results: effects hard-resnet18 -->\n<!-- end of results -->\n"
    base = REGIMES["hard-resnet18"].recipe
    three = [fake(base, method, seed) for method in ("baseline", "vwci") for seed in range(3)]
    two = [fake(base, "passes", seed) for seed in range(2)]
    head, _, baseline, *rows = build.page_with_results(page, store_of(*three, *two), DOCS).splitlines()[1:-1]
    ece = [run.test.compute().ece for run in three]
    assert head == "| ECE | hard-resnet18 |"
    assert baseline == f"| Baseline | {Estimate.of(ece[:3])} |"
    differences = Estimate.of([one - other for one, other in zip(ece[3:], ece[:3], strict=True)])
    assert f"| VWCI | {format_difference('ece', differences)} |" in rows
    assert "| Cross-entropy, T = 5 | — |" in rows
    assert build.page_with_results(page, store_of(*three[:2]), DOCS).splitlines()[3] == "| Baseline | — |"


def test_nothing_is_written_while_a_result_is_damaged(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- results: effects hard-resnet18 -->\n<!-- end of results -->\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "damaged.json").write_text("{")
    monkeypatch.setattr(build, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(build, "PAGES", (page,))
    before = page.read_text()
    with pytest.raises(SystemExit, match=r"damaged\.json"):
        build.main()
    assert page.read_text() == before


def test_pairs_are_differences_between_methods_with_all_seeds(build: ModuleType) -> None:
    page = "<!-- results: pairs hard-resnet18 hard-vgg16 -->\n<!-- end of results -->\n"
    base = REGIMES["hard-resnet18"].recipe
    three = [fake(base, method, seed) for method in ("passes", "vwci") for seed in range(3)]
    two = [fake(base, "vwci_permuted", seed) for seed in range(2)]
    head, _, *rows = build.page_with_results(page, store_of(*three, *two), DOCS).splitlines()[1:-1]
    ece = [run.test.compute().ece for run in three]
    assert head == "| difference in ECE | hard-resnet18 | hard-vgg16 |"
    differences = Estimate.of([one - other for one, other in zip(ece[3:], ece[:3], strict=True)])
    assert f"| VWCI minus Cross-entropy, T = 5 | {format_difference('ece', differences)} | — |" in rows
    assert "| VWCI, α permuted in batch minus VWCI | — | — |" in rows


def test_measures_are_sorted_by_mean_nll_over_common_networks(build: ModuleType) -> None:
    row = {"seed": 0, "ece": 0.25}
    rows = [
        {**row, "model": model, "method": method, "nll": nll}
        for method, nll in (("vwci", 3), ("baseline", 2), ("vwci_hellinger", 1))
        for model in ("resnet18", "vgg16")
    ]
    more = [*rows, {**row, "model": "vgg16", "method": "vwci", "seed": 1, "nll": 4}]
    made = build._validated(more, column="model").splitlines()
    assert made[0] == "| | resnet18 | vgg16 |"
    assert made[2:] == [
        "| VWCI, Hellinger | 0.250 / 1.000 (1) | 0.250 / 1.000 (1) |",
        "| Baseline | 0.250 / 2.000 (1) | 0.250 / 2.000 (1) |",
        "| VWCI | 0.250 / 3.000 (1) | 0.250 / 3.500 (2) |",
    ]
    made = build._validated(rows[1:], column="model").splitlines()  # networks without a method do not affect it
    assert made[0] == "| | vgg16 | resnet18 |"
    assert made[-1] == "| VWCI | 0.250 / 3.000 (1) | — |"
    assert len(build._validated([rows[0], rows[3]], column="model").splitlines()) == 4


def test_one_seed_has_no_interval_and_missing_betas_are_counted(build: ModuleType) -> None:
    runs = [fake(BASE, method, 0) for method in ("vwci", *CI[:2])]
    mean, oracle = build.page_with_results(VERSUS, store_of(*runs), DOCS).splitlines()[3:-1]
    assert mean.startswith("| CI, mean over β (2 of 5 β) | ")
    assert oracle.startswith(r"| CI\[Oracle\] (2 of 5 β) | ")
    assert mean.count("[") == 0


def test_unknown_markers_are_refused(build: ModuleType) -> None:
    for mark, reason in [
        ("tabel 1 cifar100 resnet18", "unknown marker 'tabel 1 cifar100 resnet18'; use 'table NUMBER"),
        ("table 1 cifar100", "unknown marker 'table 1 cifar100'"),
        ("figure 2 cifar100", "unknown marker"),
        ("alpha mnist", "unknown marker"),
        ("", "unknown marker ''"),
        ("table 9 cifar100 resnet18", "table9"),
        ("figure 9 cifar100 resnet18", "fig9"),
        ("table 1 cifar100 resnet17", "resnet17"),
        ("versus other cifar100 resnet18", "other"),
    ]:
        with pytest.raises(ValueError, match=reason):
            build.page_with_results(f"<!-- results: {mark} -->\n<!-- end of results -->", store_of(), DOCS)


def test_a_marker_without_its_end_is_refused(build: ModuleType) -> None:
    for page in (
        VERSUS.replace("<!-- end of results -->", "") + "a sentence\n" + VERSUS,
        VERSUS + "<!-- end of results -->",
        VERSUS.replace("-->\n", "", 1),
        "<!-- end of results -->\n" + VERSUS.replace("<!-- end of results -->", ""),
    ):
        with pytest.raises(ValueError, match="needs its own"):
            build.page_with_results(page, store_of(), DOCS)
        with pytest.raises(ValueError, match="needs its own"):
            build.draw(page, store_of())


def test_pictures_are_linked_relative_to_the_page(build: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "docs" / "images" / "fig2-cifar100-resnet18-vgg16.png"
    assert "*Figure 2 has no runs yet.*" in build.page_with_results(FIGURE, store_of(), tmp_path)
    picture.parent.mkdir(parents=True)
    picture.touch()
    assert "](docs/images/fig2-cifar100-resnet18-vgg16.png)" in build.page_with_results(FIGURE, store_of(), tmp_path)
    assert "](images/fig2-cifar100-resnet18-vgg16.png)" in build.page_with_results(
        FIGURE, store_of(), tmp_path / "docs"
    )


def test_picture_without_runs_is_deleted(build: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "docs" / "images" / "fig5-cifar100-resnet18.png"
    page = "<!-- results: figure 5 cifar100 resnet18 -->\n<!-- end of results -->\n"
    build.draw(page, store_of(fake(BASE, "baseline", 0)))
    assert picture.stat().st_size > 1000
    build.draw(page, store_of())
    assert not picture.exists()
    assert "fig5 has nothing to draw" in capsys.readouterr().out
