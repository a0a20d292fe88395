"""Fig. 4 from synthetic results, against numpy."""

from __future__ import annotations

import pytest

from fake_results import RESNET, SEEDS, VGG, drawn_store, without
from figure_oracle import assert_estimates, eces, panels
from singleshot.paper.figures import draw_figure
from singleshot.paper.methods import PASSES


def test_fig4_has_the_ece_by_the_number_of_passes_beside_the_baseline() -> None:
    store = drawn_store()
    figure, numbers = draw_figure("fig4", [RESNET, VGG], SEEDS, store)
    (ax,) = panels(figure)
    for setting, base in zip(numbers["settings"], (RESNET, VGG), strict=True):
        assert_estimates(setting["baseline"], eces(base, "baseline"))
        assert [point["passes"] for point in setting["vwci"]] == list(PASSES)
        for point in setting["vwci"]:
            assert_estimates(point, eces(base, f"vwci_T{point['passes']}"))
        (curve,) = (one for one in ax.containers if one.get_label() == f"{base.model} on digits, VWCI (3 seeds)")
        assert curve[0].get_ydata() == pytest.approx([point["mean"] for point in setting["vwci"]])
        name = f"{base.model} on digits, baseline"
        (line,) = (one for one in ax.get_lines() if str(one.get_label()).startswith(name))
        assert line.get_ydata() == pytest.approx([setting["baseline"]["mean"]] * 2)
        assert (line.get_color(), line.get_linestyle()) == (curve[0].get_color(), "--")
        assert "(3 seeds)" in line.get_label()
        assert ax.get_ylim()[1] > max(setting["baseline"]["mean"], *curve[0].get_ydata())


def test_fig4_states_different_numbers_of_seeds_and_needs_no_baseline() -> None:
    store = drawn_store()
    without(store, RESNET, "baseline", 0, 1, 2)
    without(store, RESNET, "vwci_T10", 2)
    without(store, RESNET, "vwci_T2", 0, 1, 2)
    figure, numbers = draw_figure("fig4", [RESNET], SEEDS, store)
    assert numbers["settings"][0]["baseline"] is None
    assert [(one["passes"], one["seeds"]) for one in numbers["settings"][0]["vwci"]] == [(3, 3), (5, 3), (10, 2)]
    assert panels(figure)[0].get_title() == "mean ± standard error (2 to 3 seeds)"


def test_fig4_needs_more_than_the_baseline() -> None:
    with pytest.raises(ValueError, match="missing: resnet18 on digits, vwci_T2, seed 0; resnet18 on digits, vwci_T3"):
        draw_figure("fig4", [RESNET], 1, drawn_store([RESNET], ["baseline"], seeds=1))
