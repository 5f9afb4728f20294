"""Checks that every oracle must pass; for those who write their own."""

import json
import math
from collections.abc import Sequence
from typing import Any

from fasta_learn.oracles._base import BaseOracle
from fasta_learn.oracles._measurement import Measurement


def check_oracle(
    oracle: BaseOracle, configs: Sequence[Any], *, rtol: float | None = None
) -> None:
    """Check that an oracle keeps to the interface.

    It measures the configs five times.

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
    >>> check_oracle(oracle, [{"BLOCK": 32}, {"BLOCK": 64}], rtol=0)
    """
    if len(configs) < 2:
        raise ValueError(f"check_oracle needs two configs or more, got {len(configs)}.")
    _check_fingerprint(oracle)
    oracle.open_pool(configs)
    _check_empty(oracle)
    first = _measured(oracle, configs)
    each = list(oracle.measure_each(config for config in configs))
    _check_answers("measure_each of a generator", each, len(configs))
    _check_agree("measure_each and measure", each, first, rtol)
    _check_agree("two calls of measure", _measured(oracle, configs), first, rtol)
    backwards = _measured(oracle, configs[::-1])
    _check_agree("measure of the reversed configs", backwards[::-1], first, rtol)
    single = [answer for config in configs for answer in _measured(oracle, [config])]
    _check_agree("measure of each config alone", single, first, rtol)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


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
    _check(list(oracle.measure_each([])) == [], "measure_each([]) must give nothing")


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
