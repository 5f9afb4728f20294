"""What a user can choose, given as arguments or by environment variables."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

_PREFIX = "FASTA_LEARN_"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

# Changes whenever the same settings may find another winner than before.
_VERSION = 1

# These say where results are kept and who computes them, not what is found.
_WITHOUT_EFFECT = (
    "gemm",
    "pointwise",
    "npu",
    "store",
    "frozen",
    "n_jobs",
    "statistics",
)


def is_true(text: str) -> bool:
    """Return whether the text of an environment variable means yes.

    Parameters
    ----------
    text : str
        Such as "1", "true", "yes", or "on", in any case.

    Returns
    -------
    bool
        False for all else.
    """
    return text.strip().lower() in _TRUE


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How TorchInductor's kernels are tuned.

    Each setting is also read from an environment variable, of its name in upper case
    with ``FASTA_LEARN_`` in front, such as ``FASTA_LEARN_GEMM_BUDGET=0.1``.

    Parameters
    ----------
    gemm : bool, default=True
        Whether to search among the kernels of matrix products and of whatever else
        Inductor chooses between when ``max_autotune`` is on.
    pointwise : bool, default=True
        Whether to search among the configs of pointwise kernels, reductions and
        user-defined Triton kernels.
    gemm_budget : int or float, default=100
        How many choices to measure: a count, or a share of the pool if it is a float.
        Inductor's own choices are among them.
    gemm_confidence : float or None, default=0.97
        A search ends before its budget, but not before half of it and 30 measurements,
        when it is this probable that nothing else would be taken; None for never.
    pointwise_budget : int or float, default=80
        How many configs of a pointwise kernel or reduction to measure, likewise.
    npu : bool, default=True
        Whether to search among the configs of kernels for Ascend NPUs, where torch_npu
        is installed.
    npu_budget : int, float or None, default=None
        How many of their configs to measure, likewise; None is two fifths of them, and
        at least 12.
    time_budget : float or None, default=None
        Seconds after which a search ends.
    margin : float, default=0.02
        By which share another kernel has to be faster than the one that Inductor
        would have taken, to be taken instead.
    random_state : int, default=0
        Seed. Equal seeds and measurements make equal choices.
    store : bool or path-like, default=True
        Folder of measurements and winners, as in `fasta_learn.autotune`.
    frozen : bool or None, default=None
        Whether nothing may be measured: what is not known is left to Inductor.
    n_jobs : int or None, default=None
        Number of compiles at the same time; None for what Inductor would use.
    statistics : path-like or None, default=None
        CSV file to which a line is appended for each search.

    Raises
    ------
    TypeError, ValueError
        A value is of the wrong kind or out of range.

    Examples
    --------
    >>> from fasta_learn.inductor import Settings
    >>> Settings(gemm_budget=0.1).gemm_budget
    0.1
    """

    gemm: bool = True
    pointwise: bool = True
    gemm_budget: int | float = 100
    gemm_confidence: float | None = 0.97
    pointwise_budget: int | float = 80
    npu: bool = True
    npu_budget: int | float | None = None
    time_budget: float | None = None
    margin: float = 0.02
    random_state: int = 0
    store: bool | str | os.PathLike[str] = True
    frozen: bool | None = None
    n_jobs: int | None = None
    statistics: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name, (is_valid, wanted) in _RULES.items():
            value = getattr(self, name)
            if not is_valid(value):
                raise ValueError(f"{name} must be {wanted}, got {value!r}.")

    @classmethod
    def from_environment(cls, **given: Any) -> Self:
        """Return settings that take from the environment what is not given.

        Parameters
        ----------
        **given : object
            Settings, which win.

        Returns
        -------
        Settings
            The settings.

        Raises
        ------
        TypeError
            There is no setting of a given name.
        ValueError
            A value is invalid; the message says which variable holds it.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(given.keys() - set(names)):
            raise TypeError(
                f"there is no setting {unknown[0]!r}; there are {', '.join(names)}."
            )
        found = {
            name: _parse(name, text)
            for name in names
            if name not in given
            and (text := os.environ.get(_variable(name), "").strip())
        }
        for name, value in found.items():
            is_valid, wanted = _RULES[name]
            if not is_valid(value):
                raise ValueError(
                    f"{_variable(name)} must be {wanted}, "
                    f"got {os.environ[_variable(name)]!r}."
                )
        return cls(**{**found, **given})

    @property
    def is_frozen(self) -> bool:
        """Whether nothing may be measured."""
        return bool(self.frozen)

    def cache_key(self) -> str:
        """Return what tells settings apart that may find different winners.

        Returns
        -------
        str
            16 hexadecimal digits, equal in every process.
        """
        values = {n: v for n, v in vars(self).items() if n not in _WITHOUT_EFFECT}
        text = json.dumps({"version": _VERSION, **values}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _variable(name: str) -> str:
    return _PREFIX + name.upper()


def _parse(name: str, text: str) -> Any:
    """Return the value that a text means, or the text if it means none."""
    lower = text.lower()
    if name in ("gemm", "pointwise", "npu", "frozen", "store"):
        # Any other text is the path of a store, and no valid value elsewhere.
        return True if lower in _TRUE else False if lower in _FALSE else text
    if name == "statistics":
        return text
    if lower == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value))


def _is_budget(value: Any) -> bool:
    return value >= 1 if _is_count(value) else _is_number(value) and 0 < value <= 1


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


_FLAG = (_is_flag, "True or False")
_BUDGET = (_is_budget, "a count of at least 1, or a share in (0, 1]")
_BUDGET_OR_NONE = f"{_BUDGET[1]}, or None"
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "gemm": _FLAG,
    "pointwise": _FLAG,
    "gemm_budget": _BUDGET,
    "pointwise_budget": _BUDGET,
    "gemm_confidence": (
        lambda value: value is None or (_is_number(value) and 0 < value < 1),
        "a probability above 0 and below 1, or None",
    ),
    "npu": _FLAG,
    "npu_budget": (lambda value: value is None or _is_budget(value), _BUDGET_OR_NONE),
    "time_budget": (
        lambda value: value is None or (_is_number(value) and value > 0),
        "a number of seconds greater than 0, or None",
    ),
    "margin": (
        lambda value: _is_number(value) and 0 <= value < 1,
        "a share in [0, 1)",
    ),
    "random_state": (
        lambda value: _is_count(value) and 0 <= value < 2**32,
        "an integer in [0, 2**32)",
    ),
    "store": (
        lambda value: _is_flag(value) or _is_path(value),
        "True, False, or the path of a folder",
    ),
    "frozen": (lambda value: value is None or _is_flag(value), "True, False, or None"),
    "n_jobs": (
        lambda value: value is None or (_is_count(value) and value >= 1),
        "an integer of at least 1, or None",
    ),
    "statistics": (
        lambda value: value is None or _is_path(value),
        "the path of a file, or None",
    ),
}
