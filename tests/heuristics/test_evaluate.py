import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fasta_learn.heuristics import (
    PadDecisionTree,
    PadHeuristic,
    drift_check,
    evaluate,
    generate_code,
    group_inputs,
    plot_decisions,
    plot_evaluation,
)

sys.path.insert(0, str(Path(__file__).parent))
from synthetic import A100, SyntheticGPU, make_input, make_log


def make_inputs():
    return pd.DataFrame(
        {
            "median_orig": [2.0, 1.0, 1.0, 1.05],
            "median_pad": [1.0, 2.0, 1.05, 1.0],
            "mat1_dtype": ["a", "a", "b", "b"],
            "group": [0, 0, 1, 2],
        }
    )


@pytest.fixture(scope="module")
def inputs():
    return group_inputs(make_log(200, seed=0))


@pytest.fixture(scope="module")
def heuristic():
    learned = group_inputs(make_log(1500, seed=7))
    return PadHeuristic(PadDecisionTree(), random_state=0).fit(learned)


def test_metrics_by_hand():
    decided = ["pad", "pad", None, "orig"]
    row = evaluate(make_inputs(), {"mine": lambda frame: decided}).loc["mine"]
    assert row["n_inputs"] == 4
    assert row["coverage"] == 0.75
    assert_allclose(row["accuracy"], 1 / 3)
    assert_allclose(row["regret"], (1 * 2 * 1.05) ** (1 / 3))
    assert_allclose(row["slow"], 1 / 3)
    assert_allclose(row["worst"], 2.0)


def test_undecided_inputs_are_benchmarked_in_the_total():
    row = evaluate(make_inputs(), {"none": lambda frame: [None] * 4}).loc["none"]
    # The benchmark pads only if that is 1.1 times faster: the last input loses 5 %.
    assert_allclose(row["total_regret"], 1.05 ** (1 / 4))
    assert_allclose(row["seconds"], (1 + 1 + 1 + 1.05) / 1e3)
    assert np.isnan(row["regret"])


def test_benchmark_decides_as_torch_does():
    table = evaluate(make_inputs(), {"benchmark": "benchmark", "orig": "orig"})
    assert_allclose(table.loc["benchmark", "regret"], 1.05 ** (1 / 4))
    assert_allclose(table.loc["orig", "regret"], (2 * 1.05) ** (1 / 4))


def test_rows_by_a_column():
    table = evaluate(make_inputs(), {"pad": "pad"}, by="mat1_dtype")
    assert table.index.names == ["policy", "mat1_dtype"]
    assert_allclose(table.loc[("pad", "a"), "regret"], np.sqrt(2))
    assert_allclose(table.loc[("pad", "b"), "regret"], np.sqrt(1.05))


def test_intervals_draw_whole_groups():
    # Two groups of very different size: the mean of a draw is one of three values.
    frame = pd.DataFrame({"median_orig": [2.0] * 9 + [1.0], "median_pad": 1.0})
    frame["group"] = [0] * 9 + [1]
    row = evaluate(frame, {"orig": "orig"}).loc["orig"]
    assert_allclose([row["regret_low"], row["regret_high"]], [1.0, 2.0])


def test_intervals_hold_the_estimate(inputs):
    table = evaluate(inputs, {"pad": "pad", "orig": "orig"})
    assert (table["regret_low"] <= table["regret"]).all()
    assert (table["regret"] <= table["regret_high"]).all()


def test_equal_seeds_give_equal_intervals(inputs):
    first, second = (evaluate(inputs, {"pad": "pad"}, random_state=1) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_a_log_is_evaluated_by_its_inputs(inputs):
    log = make_log(200, seed=0)
    expected = evaluate(inputs, {"pad": "pad"})
    pd.testing.assert_frame_equal(evaluate(log, {"pad": "pad"}), expected)


@pytest.mark.parametrize("form", ["estimator", "source", "path", "instance"])
def test_all_forms_of_a_policy_agree(form, inputs, heuristic, tmp_path):
    from fasta_learn.heuristics._evaluate_policies import load_artifact

    code = generate_code(heuristic, metadata=A100.metadata, name="PadMMTest")
    path = tmp_path / "_PadMMTest.py"
    path.write_text(code)
    policy = {
        "estimator": heuristic,
        "source": code,
        "path": path,
        "instance": load_artifact(code),
    }[form]
    expected = evaluate(inputs, {"p": lambda frame: heuristic.decide(frame)})
    pd.testing.assert_frame_equal(evaluate(inputs, {"p": policy}), expected)


def test_artifacts_that_torch_ships_can_be_asked(inputs):
    from torch._inductor.autoheuristic.artifacts._PadMMA100 import PadMMA100

    row = evaluate(inputs, {"shipped": PadMMA100()}).loc["shipped"]
    assert 0 < row["coverage"] < 1


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (lambda frame: ["pad"], ValueError, "1 answers for 4 inputs"),
        (lambda frame: ["both"] * 4, ValueError, r"decided \['both'\]"),
        (3, TypeError, "no policy"),
        ("always", TypeError, "no policy"),
    ],
)
def test_policies_that_can_not_be_asked_are_refused(policy, error, message):
    with pytest.raises(error, match=message):
        evaluate(make_inputs(), {"it": policy})


def test_inputs_that_were_measured_by_halves_are_left_out():
    frame = make_inputs()
    frame.loc[0, "median_pad"] = np.nan
    assert evaluate(frame, {"pad": "pad"}).loc["pad", "n_inputs"] == 3
    with pytest.raises(ValueError, match="two measured choices"):
        evaluate(frame.head(1), {"pad": "pad"})


def test_no_drift_on_the_same_device(heuristic):
    new = group_inputs(make_log(150, seed=5))
    claim = evaluate(group_inputs(make_log(150, seed=6)), {"h": heuristic}).loc["h"]
    metrics = {"regret": claim["regret_high"], "coverage": 1.0}
    code = generate_code(
        heuristic, metadata=A100.metadata, name="PadMMTest", metrics=metrics
    )
    report = drift_check(code, new)
    assert not report.drifted
    assert report.claimed_regret == metrics["regret"]


def test_drift_on_another_device(heuristic, inputs):
    claim = evaluate(inputs, {"h": heuristic}).loc["h"].to_dict()
    careless = SyntheticGPU(efficiency=(1.0, 1.0, 1.0, 1.0))  # alignment is no matter
    report = drift_check(heuristic, make_log(150, seed=5, gpu=careless), claimed=claim)
    assert report.drifted
    assert "above the claimed" in report.reasons[0]


def test_drift_if_little_is_decided(inputs):
    report = drift_check(
        lambda frame: [None] * len(frame), inputs, claimed={"coverage": 0.9}
    )
    assert any("0% of the inputs are decided" in reason for reason in report.reasons)


def test_plots_have_a_bar_for_each_policy(inputs):
    pytest.importorskip("matplotlib").use("Agg")
    table = evaluate(inputs, {"pad": "pad", "orig": "orig"})
    ax = plot_evaluation(table)
    widths = [patch.get_width() for patch in ax.patches]
    assert_allclose(widths, 100 * (table["regret"] - 1))


def test_values_are_written_beside_the_bars():
    pytest.importorskip("matplotlib").use("Agg")
    inputs = pd.DataFrame({"median_orig": [1.2], "median_pad": [1.0]})
    nothing = lambda frame: [None] * len(frame)  # noqa: E731
    ax = plot_evaluation(evaluate(inputs, {"orig": "orig", "none": nothing}))
    assert [text.get_text() for text in ax.texts] == ["20.00", "nothing decided"]
    assert max(ax.get_ylim()) > 1  # the second row is in view


def test_labels_of_a_plot_fit_into_its_figure(inputs):
    pytest.importorskip("matplotlib").use("Agg")
    names = {f"a policy with a long name, number {n}": "pad" for n in range(3)}
    ax = plot_evaluation(evaluate(inputs, names))
    ax.figure.canvas.draw()
    left, bottom, right, top = ax.get_tightbbox().extents
    assert min(left, bottom) >= 0
    assert right <= ax.figure.bbox.width
    assert top <= ax.figure.bbox.height


def test_decision_map_shows_what_is_decided(heuristic):
    pytest.importorskip("matplotlib").use("Agg")
    product = make_input(1000, 1001, 1000)
    ax = plot_decisions(heuristic, product, sizes=[513, 2049, 8193])
    (mesh,) = ax.collections
    frame = pd.DataFrame(
        [make_input(m, 1001, n) for m in (513, 2049, 8193) for n in (513, 2049, 8193)]
    )
    expected = [{"orig": 1, "pad": 2}[choice] for choice in heuristic.decide(frame)]
    assert mesh.get_array().ravel().tolist() == expected


@pytest.mark.parametrize(
    ("policy", "labels"),
    [("pad", ["pad"]), (lambda frame: [None] * len(frame), ["unsure"])],
)
def test_legend_tells_of_what_the_map_shows(policy, labels):
    pytest.importorskip("matplotlib").use("Agg")
    ax = plot_decisions(policy, make_input(1000, 1001, 1000), sizes=[513, 2049])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == labels
