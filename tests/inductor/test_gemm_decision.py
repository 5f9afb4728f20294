"""Tests of the answer that Inductor gets."""

import math

import pytest

from fasta_learn.inductor._gemm_decision import settle, tell_times
from fasta_learn.inductor._gemm_search import Contender, Found
from fasta_learn.oracles import Measurement


def make_found(durations):
    """Give what was measured; names in capitals are Inductor's own."""
    contenders = {
        name: Contender(key=name, make=None, is_stock=name.isupper())
        for name in durations
    }
    measurements = {
        contenders[name]: Measurement(ms)
        if ms < math.inf
        else Measurement(ms, "launch_error", "it fails")
        for name, ms in durations.items()
    }
    return Found(measurements, "budget"), contenders


def answer_to(durations, again=None, *, margin=0.02):
    found, _ = make_found(durations)
    again = {**durations, **(again or {})}
    return settle(found, lambda c: again[c.key], margin=margin, random_state=0)


def by_name(answer):
    return {contender.key: ms for contender, ms in answer.durations.items()}


def test_a_clear_winner_is_taken():
    answer = answer_to({"EXTERN": 1.0, "fast": 0.9, "slow": 1.1})
    assert answer.winner.key == "fast"
    assert answer.stock_ms == 1.0


def test_within_the_margin_inductors_own_is_kept():
    answer = answer_to({"EXTERN": 1.0, "close": 0.99})
    assert answer.winner.key == "EXTERN"


def test_the_finals_correct_what_the_search_saw():
    answer = answer_to({"EXTERN": 1.0, "lucky": 0.8}, {"lucky": 1.05})

    assert answer.winner.key == "EXTERN"
    assert by_name(answer)["lucky"] == 1.05


def test_the_winner_has_the_lowest_time():
    answer = answer_to({"EXTERN": 1.0, "close": 0.99, "closer": 0.985})
    times = by_name(answer)

    assert min(times, key=times.get) == "EXTERN"
    assert times["EXTERN"] == 1.0
    assert sorted(times.values())[1] > 1.0


def test_all_that_was_measured_has_a_time():
    durations = {"EXTERN": 1.0, "fast": 0.9, "slow": 3.0}
    assert by_name(answer_to(durations)) == pytest.approx(durations)


def test_failures_of_inductors_own_have_none_but_those_of_others_are_left_out():
    answer = answer_to({"EXTERN": 1.0, "OWN": math.inf, "other": math.inf})
    assert by_name(answer) == {"EXTERN": 1.0, "OWN": math.inf}


def test_nothing_is_answered_if_nothing_ran():
    assert answer_to({"EXTERN": math.inf, "other": math.inf}) is None


def test_one_alone_needs_no_finals():
    answer = answer_to({"EXTERN": 1.0, "slow": 2.0})
    assert answer.n_rounds == 0


def test_a_finalist_that_fails_again_does_not_win():
    answer = answer_to({"EXTERN": 1.0, "broken": 0.5}, {"broken": math.inf})
    assert answer.winner.key == "EXTERN"


@pytest.mark.parametrize("again", [None, lambda contender: math.inf])
def test_the_search_decides_where_nothing_can_be_measured_again(again):
    found, contenders = make_found({"EXTERN": 1.0, "fast": 0.9, "close": 0.99})
    answer = settle(found, again, margin=0.02, random_state=0)

    assert answer.winner is contenders["fast"]
    assert answer.n_rounds == 0


def test_the_search_alone_keeps_inductors_own_within_the_margin():
    found, contenders = make_found({"EXTERN": 1.0, "close": 0.99})
    answer = settle(found, None, margin=0.02, random_state=0)
    assert answer.winner is contenders["EXTERN"]


def test_times_are_those_measured_unless_they_would_win():
    _, names = make_found({"A": 1.0, "b": 0.5, "C": 2.0})
    durations = {names["A"]: 1.0, names["b"]: 0.5, names["C"]: 2.0}
    told = tell_times(durations, names["A"])

    assert told[names["A"]] == 1.0
    assert told[names["b"]] == math.nextafter(1.0, 2.0)
    assert told[names["C"]] == 2.0
