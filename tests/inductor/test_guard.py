import logging

import pytest

from fasta_learn.inductor import _guard
from fasta_learn.inductor._guard import guarded, warn_once


@pytest.fixture(autouse=True)
def _nothing_warned(monkeypatch):
    monkeypatch.setattr(_guard, "_warned", set())


def stock(value, *, scale=1):
    """Stand in for a function of Inductor's."""
    return "stock", value, scale


def failing(error):
    def ours(*args, **kwargs):
        raise error

    return ours


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_ours_answers():
    assert guarded("mm", lambda value, *, scale: value * scale, stock)(3, scale=2) == 6


def test_stock_answers_the_same_call_when_ours_fails(caplog):
    call = guarded("mm", failing(ZeroDivisionError("by zero")), stock)
    assert call(3, scale=2) == ("stock", 3, 2)
    (warning,) = warnings_of(caplog)
    assert "tuning of mm failed (ZeroDivisionError: by zero)" in warning
    assert "report" in warning


def test_each_feature_warns_once(caplog):
    call = guarded("mm", failing(ValueError("no")), stock)
    other = guarded("reduction", failing(ValueError("no")), stock)
    for function in (call, call, other, call, other):
        function(1)
    assert len(warnings_of(caplog)) == 2


def test_traceback_is_logged_for_debugging_each_time(caplog):
    caplog.set_level(logging.DEBUG, "fasta_learn.inductor")
    call = guarded("mm", failing(ValueError("no")), stock)
    call(1)
    call(1)
    assert [r.levelno for r in caplog.records] == [logging.WARNING, logging.DEBUG]
    assert all(r.exc_info[1].args == ("no",) for r in caplog.records)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_end_of_the_process_is_no_failure(end, caplog):
    with pytest.raises(end):
        guarded("mm", failing(end()), stock)(1)
    assert caplog.records == []


def test_error_of_stock_is_raised_without_ours():
    def bad_stock(value):
        raise LookupError("stock")

    with pytest.raises(LookupError, match="stock") as caught:
        guarded("mm", failing(ValueError("ours")), bad_stock)(1)
    assert caught.value.__context__ is None


def test_guarded_function_looks_like_stock():
    call = guarded("mm", failing(ValueError("no")), stock)
    assert (call.__name__, call.__wrapped__) == ("stock", stock)


def test_warning_needs_no_failing_call(caplog):
    warn_once("gemm", RuntimeError("no hook"))
    (warning,) = warnings_of(caplog)
    assert "RuntimeError: no hook" in warning
