"""Checks that every oracle must pass; for those who write their own."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._measurement import Measurement


def check_oracle(
    oracle: BaseOracle,
    configs: Sequence[Any],
    *,
    rtol: float | None = None,
    one_by_one: bool = False,
) -> None:
    """Check that an oracle keeps to the interface.

    It measures the configs eight times.

    Parameters
    ----------
    oracle : BaseOracle
        The oracle.
    configs : sequence of length n, or ndarray of shape (n, D)
        Two or more different configs that it can measure; some may fail.
    rtol : float or None, default=None
        How far two durations of one config may be apart, as a share of the larger.
        Choose it smaller than the differences between the configs, so that a wrong
        order is found; 0 for an oracle without noise. With None, only whether each
        config runs is compared.
    one_by_one : bool, default=False
        Whether the oracle claims to measure one config after the other. It must then
        take each config from a generator only when those before it are answered.

    Raises
    ------
    AssertionError
        The oracle breaks a rule; the message says which.
    ValueError
        There are fewer than two configs.

    Examples
    --------
    >>> from fasta_learn.oracles import CallableOracle, check_oracle
    >>> oracle = CallableOracle(lambda config: 64 / config["BLOCK"])
    >>> configs = [{"BLOCK": 32}, {"BLOCK": 64}]
    >>> check_oracle(oracle, configs, rtol=0, one_by_one=True)
    """
    if len(configs) < 2:
        raise ValueError(f"check_oracle needs two configs or more, got {len(configs)}.")
    _check_attributes(oracle)
    _check_fingerprint(oracle)
    _check_silent("open_pool", oracle.open_pool, configs)
    _check_empty(oracle)
    first = _measured(oracle, configs)
    each = _drawn("measure_each", oracle.measure_each, configs, one_by_one)
    _check_agree("measure_each and measure", each, first, rtol)
    _check_agree("two calls of measure", _measured(oracle, configs), first, rtol)
    backwards = _measured(oracle, configs[::-1])
    _check_agree("measure of the reversed configs", backwards[::-1], first, rtol)
    single = [answer for config in configs for answer in _measured(oracle, [config])]
    _check_agree("measure of each config alone", single, first, rtol)
    _check_remeasure(oracle, configs, first, rtol, one_by_one)
    for name, hook in (("prepare", oracle.prepare), ("open_pool", oracle.open_pool)):
        _check_silent(f"{name} of a generator", hook, (c for c in configs))
        after = _measured(oracle, configs)
        _check_agree(f"measure before and after {name}", after, first, rtol)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _check_silent(
    what: str, hook: Callable[[Iterable[Any]], Any], configs: Iterable[Any]
) -> None:
    answer = hook(configs)
    _check(answer is None, f"{what} must answer None, got {answer!r}")


def _check_attributes(oracle: BaseOracle) -> None:
    for name, least in (("lookahead", 0), ("n_parallel", 1)):
        count = getattr(oracle, name)
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        _check(
            whole and count >= least,
            f"{name} must be an int of at least {least}, got {count!r}",
        )


def _check_fingerprint(oracle: BaseOracle) -> None:
    identity = oracle.fingerprint()
    _check(isinstance(identity, dict), f"fingerprint must be a dict, got {identity!r}")
    try:
        json.dumps(identity)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"fingerprint can't be written as JSON: {error}"
        ) from error
    _check(oracle.fingerprint() == identity, "fingerprint differs from call to call")


def _check_empty(oracle: BaseOracle) -> None:
    _check(oracle.measure([]) == [], "measure([]) must give an empty list")
    for name in ("measure_each", "remeasure_each"):
        answers = list(getattr(oracle, name)([]))
        _check(answers == [], f"{name}([]) must give nothing")
    _check_silent("prepare([])", oracle.prepare, [])


def _check_remeasure(
    oracle: BaseOracle,
    configs: Sequence[Any],
    first: list[Measurement],
    rtol: float | None,
    one_by_one: bool,
) -> None:
    # A race repeats a config, which an oracle that remembers could leave out.
    order = [*range(len(configs))[::-1], 0]
    again = _drawn(
        "remeasure_each",
        oracle.remeasure_each,
        [configs[index] for index in order],
        one_by_one,
    )
    _check_agree("remeasure_each and measure", again, [first[i] for i in order], rtol)


def _drawn(
    name: str,
    method: Callable[[Iterable[Any]], Iterator[Measurement]],
    configs: Sequence[Any],
    one_by_one: bool,
) -> list[Measurement]:
    """Let a method take configs from a generator, and watch when it takes them."""
    n_taken = 0

    def generator() -> Iterator[Any]:
        nonlocal n_taken
        for config in configs:
            n_taken += 1
            yield config

    iterator = method(generator())
    _check(
        isinstance(iterator, Iterator),
        f"{name} must give an iterator, got {type(iterator)}",
    )
    answers: list[Measurement] = []
    for answer in islice(iterator, len(configs) + 1):
        answers.append(answer)
        _check(
            not one_by_one or n_taken <= len(answers),
            f"{name} has taken {n_taken} configs from a generator for answer "
            f"{len(answers)}; one that measures one by one takes each when it is due",
        )
    _check_answers(f"{name} of a generator", answers, len(configs))
    return answers


def _measured(oracle: BaseOracle, configs: Sequence[Any]) -> list[Measurement]:
    answers = oracle.measure(configs)
    _check(isinstance(answers, list), f"measure must give a list, got {type(answers)}")
    _check_answers("measure", answers, len(configs))
    return answers


def _check_answers(what: str, answers: list[Any], length: int) -> None:
    _check(
        len(answers) == length,
        f"{what} gave {len(answers)} answers to {length} configs",
    )
    for index, answer in enumerate(answers):
        _check(
            isinstance(answer, Measurement),
            f"{what} must give Measurements, but [{index}] is {answer!r}",
        )


def _check_agree(
    what: str, left: list[Measurement], right: list[Measurement], rtol: float | None
) -> None:
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        _check(
            one.ok == other.ok,
            f"{what}: config {index} is {one.status!r} once and {other.status!r} once",
        )
        _check(
            rtol is None
            or not one.ok
            or math.isclose(one.duration, other.duration, rel_tol=rtol),
            f"{what}: config {index} took {one.duration} ms once and {other.duration} "
            "ms once; are the answers in the order of the configs?",
        )
