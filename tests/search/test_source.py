"""Oracles behind a search: wrong answers, interruptions, time, callbacks, output."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.callback import FitCallback, ProgressBar

from fasta_learn import ActiveConfigSearch
from fasta_learn.oracles import BaseOracle, CallableOracle, Measurement
from fasta_learn.search import _engine


class Answers(BaseOracle):
    """Gives measurements one by one by a function of the position."""

    def __init__(self, answer, extra=0, missing_after=None):
        self.answer, self.extra, self.missing_after = answer, extra, missing_after
        self.n_asked = 0

    def measure(self, configs):
        return list(self.measure_each(configs))

    def measure_each(self, configs):
        for _ in configs:
            if self.n_asked == self.missing_after:
                return
            self.n_asked += 1
            yield self.answer(self.n_asked)
        for _ in range(self.extra):
            yield Measurement(1.0)


def tile_configs():
    return [{"M": i, "N": j} for i in range(10) for j in range(10)]


def measured(n_asked):
    return Measurement(1.0 + 1 / n_asked)


@pytest.mark.parametrize(
    ("oracle", "match"),
    [
        (Answers(measured, extra=1), "answered more measurements for 5 configs"),
        (Answers(measured, missing_after=3), "only 3 measurements for 5 configs"),
        (Answers(measured, missing_after=0), "only 0 measurements for 5 configs"),
    ],
    ids=["more", "fewer", "none"],
)
def test_an_answer_of_the_wrong_length_is_refused_whole(oracle, match):
    search = ActiveConfigSearch(random_state=0)
    with pytest.raises(ValueError, match=match):
        search.fit(tile_configs(), oracle=oracle)
    assert search.n_measured_ == 0
    blind = ActiveConfigSearch(random_state=0).propose(tile_configs())
    assert search.propose().tolist() == blind.tolist()


def test_an_oracle_without_end_is_refused():
    class Endless(BaseOracle):
        def measure(self, configs): ...

        def measure_each(self, configs):
            return (Measurement(1.0) for _ in itertools.count())

    with pytest.raises(ValueError, match="answered more measurements"):
        ActiveConfigSearch().fit(tile_configs(), oracle=Endless())


def test_a_wrong_length_in_a_later_batch_keeps_the_earlier_ones():
    search = ActiveConfigSearch(random_state=0)
    with pytest.raises(ValueError, match="only 0 measurements for 1 configs"):
        search.fit(tile_configs(), oracle=Answers(measured, missing_after=9))
    assert search.n_measured_ == 9


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
@pytest.mark.parametrize("n_before", [0, 3, 5, 12])
def test_an_interruption_keeps_what_was_measured(error, n_before):
    def answer(n_asked):
        if n_asked > n_before:
            raise error("stop here")
        return measured(n_asked)

    search = ActiveConfigSearch(batch_size=4, random_state=0)
    with pytest.raises(error, match="stop here"):
        search.fit(tile_configs(), oracle=Answers(answer))
    assert search.n_measured_ == len(search.results_) == n_before
    assert search.best_duration_ == (1 + 1 / n_before if n_before else np.inf)
    assert search.stop_reason_ is None


def test_an_interrupted_search_can_be_continued(pools):
    def answer(n_asked):
        if n_asked > 7:
            raise KeyboardInterrupt
        return measured(n_asked)

    search = ActiveConfigSearch(batch_size=4, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(tile_configs(), oracle=Answers(answer))
    pools.run(search, None, np.linspace(1, 2, 100))
    assert search.n_measured_ == search.n_budget_
    assert search.results_["index"].is_unique


def test_an_interrupted_blind_sample_is_completed(pools):
    def answer(n_asked):
        if n_asked > 3:
            raise KeyboardInterrupt
        return measured(n_asked)

    blind = ActiveConfigSearch(random_state=0).propose(tile_configs()).tolist()
    search = ActiveConfigSearch(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(tile_configs(), oracle=Answers(answer))
    assert search.results_["index"].tolist() == blind[:3]
    assert search.propose().tolist() == blind[3:]


def test_a_wrong_answer_does_not_hide_an_interruption():
    def answer(n_asked):
        if n_asked == 4:
            raise KeyboardInterrupt
        return measured(n_asked)

    class Broken(Answers):
        def measure_each(self, configs):
            for answer in super().measure_each(configs):
                yield answer.duration

    search = ActiveConfigSearch(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(tile_configs(), oracle=Broken(answer))
    assert search.n_measured_ == 3


def test_a_wrong_answer_keeps_those_before():
    search = ActiveConfigSearch(random_state=0)
    oracle = Answers(lambda n_asked: np.nan if n_asked == 4 else float(n_asked))
    with pytest.raises(ValueError, match=r"durations\[3\] is NaN"):
        search.fit(tile_configs(), oracle=oracle)
    assert search.results_["duration"].tolist() == [1.0, 2.0, 3.0]


class Clock:
    """A clock that each measurement moves on by a second."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def tick(self, config):
        self.now += 1.0
        return 1.0 + config["M"]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_engine.time, "monotonic", clock.monotonic)
    return clock


@pytest.mark.parametrize(("seconds", "n_measured"), [(0.5, 1), (3, 3), (7.5, 8)])
def test_no_measurement_starts_after_the_time_budget(clock, seconds, n_measured):
    search = ActiveConfigSearch(time_budget=seconds, random_state=0)
    search.fit(tile_configs(), oracle=CallableOracle(clock.tick))
    assert search.n_measured_ == n_measured
    assert search.stop_reason_ == "time"
    assert search.rounds_[-1]["n_measured"] == n_measured
    assert len(search.propose()) == 0


def test_time_spent_before_the_first_measurement_counts(clock):
    search = ActiveConfigSearch(time_budget=2.0, random_state=0)
    search.propose(tile_configs())
    clock.now += 2.0
    assert len(search.propose()) == 0
    assert search.stop_reason_ == "time"


def test_a_time_budget_moves_to_another_clock(clock):
    search = ActiveConfigSearch(time_budget=3.0, random_state=0)
    search.propose(tile_configs())
    clock.now += 2.0
    data = pickle.dumps(search)
    clock.now = 7.0
    copy = pickle.loads(data)
    assert len(copy.propose(n_configs=1)) == 1
    clock.now = 7.99
    assert len(copy.propose(n_configs=1)) == 1
    clock.now = 8.0
    assert len(copy.propose()) == 0
    assert copy.stop_reason_ == "time"


def test_a_large_time_budget_changes_nothing(clock):
    free = ActiveConfigSearch(random_state=0)
    bound = ActiveConfigSearch(time_budget=1e6, random_state=0)
    for search in (free, bound):
        search.fit(tile_configs(), oracle=CallableOracle(clock.tick))
    pd.testing.assert_frame_equal(free.results_, bound.results_)
    assert bound.stop_reason_ == "budget"


class Recorder:
    """A callback that notes its hooks, and stops the fit after so many tasks."""

    def __init__(self, stop_after=None):
        self.events, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.events.append(f"end {context.task_name}")
        return self.events.count("end measure") == self.stop_after

    def teardown(self, estimator, context):
        self.events.append("teardown")


def test_callbacks_are_called_for_each_measurement():
    recorder = Recorder()
    assert isinstance(recorder, FitCallback)
    search = ActiveConfigSearch(random_state=0).set_callbacks(recorder)
    search.fit(tile_configs(), oracle=CallableOracle(lambda config: 1.0 + config["M"]))
    n_measured = search.n_measured_
    assert recorder.events == [
        "setup",
        "begin fit",
        *["begin measure", "end measure"] * n_measured,
        "end fit",
        "teardown",
    ]
    assert n_measured == 20


@pytest.mark.parametrize("stop_after", [1, 3, 5, 6, 20])
def test_a_callback_stops_the_search(stop_after):
    recorder = Recorder(stop_after)
    search = ActiveConfigSearch(random_state=0).set_callbacks(recorder)
    search.fit(tile_configs(), oracle=CallableOracle(lambda config: 1.0 + config["M"]))
    assert search.n_measured_ == stop_after
    assert search.stop_reason_ == "callback"
    assert search.rounds_[-1]["n_measured"] == stop_after
    assert recorder.events[-1] == "teardown"


def test_a_callback_that_raises_keeps_what_was_measured():
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            if super().on_fit_task_end(estimator, context):
                raise RuntimeError("callback failed")

    failing = Failing(stop_after=3)
    search = ActiveConfigSearch(random_state=0).set_callbacks(failing)
    with pytest.raises(RuntimeError, match="callback failed"):
        search.fit(tile_configs(), np.arange(100.0) + 1)
    assert search.n_measured_ == 3
    assert failing.events[-1] == "teardown"


def test_a_config_is_due_only_when_the_one_before_is_answered():
    recorder, answered = Recorder(), []

    class Lazy(BaseOracle):
        def measure(self, configs): ...

        def measure_each(self, configs):
            for _ in configs:
                answered.append(recorder.events.count("end measure"))
                yield Measurement(1.0)

    search = ActiveConfigSearch(random_state=0).set_callbacks(recorder)
    search.fit(tile_configs(), oracle=Lazy())
    assert answered == list(range(20))


def test_callbacks_change_no_decision():
    plain = ActiveConfigSearch(random_state=0)
    watched = clone(plain).set_callbacks(Recorder())
    for search in (plain, watched):
        search.fit(tile_configs(), np.arange(100.0) + 1)
    pd.testing.assert_frame_equal(plain.results_, watched.results_)


def test_the_progress_bar_of_scikit_learn_runs(capsys):
    search = ActiveConfigSearch(random_state=0).set_callbacks(ProgressBar())
    search.fit(tile_configs(), np.arange(100.0) + 1)
    assert "ActiveConfigSearch" in capsys.readouterr().out
    assert search.n_measured_ == 20


def test_a_coverage_path_has_room_for_its_callbacks(make_search):
    # The first round fails, and the budget grows to that of the coverage path.
    durations = np.where(np.arange(60) < 50, np.inf, 1.0)
    search = make_search(random_state=0).set_callbacks(Recorder())
    search.fit([{"A": i % 10, "B": i // 10} for i in range(60)], durations)
    assert search.n_measured_ == search.n_budget_


def test_a_verbose_search_writes_a_line_for_each_round(capsys):
    search = ActiveConfigSearch(verbose=1, random_state=0)
    search.fit(tile_configs(), np.arange(100.0) + 1)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == len(search.rounds_)
    for line, record in zip(lines, search.rounds_, strict=True):
        assert line.startswith(f"round {record['round']}: ")
        assert f"{record['n_measured']} of 20 measured" in line
        assert f"best {record['best_duration']:.6g} ms" in line


def test_a_quiet_search_writes_nothing(capsys):
    ActiveConfigSearch(random_state=0).fit(tile_configs(), np.arange(100.0) + 1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "durations",
    [
        lambda values: values,
        lambda values: values.tolist(),
        lambda values: pd.Series(values, index=values[::-1]),
        lambda values: values.astype(np.float32),
        lambda values: values.astype(object),
    ],
    ids=["array", "list", "series", "single", "object"],
)
def test_recorded_durations_come_in_any_container(durations):
    values = np.arange(100.0) + 1
    search = ActiveConfigSearch(random_state=0).fit(tile_configs(), durations(values))
    expected = ActiveConfigSearch(random_state=0).fit(tile_configs(), values)
    pd.testing.assert_frame_equal(search.results_, expected.results_)


@pytest.mark.parametrize(
    "durations",
    [np.full(100, "fast"), np.full(100, 1j), np.full((100, 2), 1.0)],
    ids=["text", "complex", "two columns"],
)
def test_recorded_durations_must_be_numbers(durations):
    with pytest.raises(ValueError):
        ActiveConfigSearch().fit(tile_configs(), durations)
