import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from fasta_learn.heuristics import (
    GemmInput,
    InputSampler,
    PadFeatures,
    SimulatedGPU,
    collect,
    group_inputs,
    read_log,
    select_inputs,
)
from fasta_learn.heuristics._collect_active import expected_losses


def make_frame(sizes):
    items = [GemmInput(int(n), 1001, 1003, "float16") for n in sizes]
    return pd.DataFrame([item.features() for item in items])


@pytest.fixture
def step():
    """Padding costs a tenth below m = 3000 and gains as much above."""
    sizes = np.r_[np.arange(800, 2500, 50), np.arange(3500, 5200, 50)] + 1
    return make_frame(sizes), np.where(sizes < 3000, -0.1, 0.1)


def test_losses_are_expected_where_the_sign_changes(step):
    measured, log_ratios = step
    sizes = np.arange(851, 5200, 100)
    losses = expected_losses(make_frame(sizes), measured, log_ratios)
    assert 2500 < sizes[losses.argmax()] < 3600
    far = (sizes < 2000) | (sizes > 4000)
    assert losses[far].max() < 0.01 * losses.max()


def test_little_is_expected_where_both_take_equally_long(step):
    measured, log_ratios = step
    sizes = np.arange(851, 5200, 100)
    losses = expected_losses(make_frame(sizes), measured, log_ratios)
    # A power of two, with which the trees compute exactly alike.
    closer = expected_losses(make_frame(sizes), measured, log_ratios / 4)
    np.testing.assert_allclose(closer, losses / 4, rtol=1e-9)


def test_chosen_are_different_and_as_many_as_asked_for(step):
    candidates = make_frame(range(801, 1000))
    chosen = select_inputs(candidates, *step, 50)
    assert len(set(chosen.tolist())) == 50
    assert len(select_inputs(candidates.iloc[:20], *step, 50)) == 20


def test_equal_seeds_choose_equally(step):
    candidates = make_frame(range(801, 1000))
    first = select_inputs(candidates, *step, 20, random_state=1)
    again = select_inputs(candidates, *step, 20, random_state=1)
    other = select_inputs(candidates, *step, 20, random_state=2)
    assert first.tolist() == again.tolist() != other.tolist()


def test_exploration_is_the_share_that_is_uniform(step):
    sizes = np.arange(801, 5201, 11)
    near = (sizes > 2400) & (sizes < 3600)
    chosen = {
        share: near[
            select_inputs(make_frame(sizes), *step, 60, exploration=share)
        ].mean()
        for share in (0.0, 1.0)
    }
    assert chosen[0.0] > 0.95
    assert chosen[1.0] == pytest.approx(near.mean(), abs=0.2)


def test_active_collection_completes_and_resumes(tmp_path):
    path = tmp_path / "log.txt"
    options = {"benchmark": SimulatedGPU(), "isolate": False, "active": True}
    first = collect(path, n_samples=90, **options)
    assert (first.n_before, first.n_measured) == (0, 90)
    second = collect(path, n_samples=160, **options)
    assert (second.n_before, second.n_measured) == (90, 70)
    inputs = group_inputs(read_log(path))
    assert len(inputs) == 160
    assert (inputs["n_orig"] == 3).all()


def test_active_collection_is_reproducible(tmp_path):
    for name in ("a", "b"):
        collect(
            tmp_path / name,
            n_samples=110,
            benchmark=SimulatedGPU(),
            isolate=False,
            active=True,
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_active_collection_teaches_more_than_random_inputs(tmp_path):
    """The regret of the same forest, after as many inputs, on other inputs."""
    gpu = SimulatedGPU(noise=0)
    sampler = InputSampler(gpu.memory, random_state=99)
    items = [sampler.draw() for _ in range(1500)]
    tested = pd.DataFrame([item.features() for item in items])
    durations = pd.DataFrame([gpu.durations(item) for item in items])
    truth = np.log(durations["orig"] / durations["pad"]).to_numpy()
    regrets = {}
    for active in (False, True):
        path = tmp_path / str(active)
        collect(
            path,
            n_samples=350,
            benchmark=gpu,
            isolate=False,
            active=active,
            known=False,
        )
        inputs = group_inputs(read_log(path))
        target = np.log(inputs["median_orig"] / inputs["median_pad"])
        features = PadFeatures().fit(inputs)
        forest = ExtraTreesRegressor(60, min_samples_leaf=2, random_state=0)
        forest.fit(features.transform(inputs), target)
        pads = forest.predict(features.transform(tested)) > 0
        regrets[active] = np.where(pads == (truth > 0), 0, np.abs(truth)).mean()
    assert regrets[True] < 0.8 * regrets[False]
