"""The answer of measuring one config."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

import numpy as np

from fasta_learn.oracles._worker import describe_exception

STATUSES = (
    "ok",
    "compile_error",
    "out_of_resources",
    "launch_error",
    "illegal_access",
    "timeout",
    "wrong_result",
    "out_of_memory",
    "error",
)

_REASON_LENGTH = 200
_OPTIONAL_NUMBERS = ("compile_seconds", "run_seconds", "duration_p20", "duration_p80")


def bound_reason(exception_or_text: BaseException | str) -> str:
    """Shorten an error to one line of at most 200 characters.

    Parameters
    ----------
    exception_or_text : BaseException or str
        The error, or a text about it.

    Returns
    -------
    str
        The text with every run of blanks, line ends and unprintable characters
        replaced by one blank. An exception is preceded by the name of its type. A
        text that is too long ends in ``"…"``.

    Examples
    --------
    >>> from fasta_learn.oracles import bound_reason
    >>> bound_reason(ValueError("no such tile:\\n  BLOCK_M = 7"))
    'ValueError: no such tile: BLOCK_M = 7'
    """
    text = exception_or_text
    if isinstance(text, BaseException):
        text = describe_exception(text)
    # The first cut bounds the work; it leaves room for blanks that go.
    text = "".join(c if c.isprintable() else " " for c in text[: 50 * _REASON_LENGTH])
    text = " ".join(text.split())
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What measuring one config gave: a duration, or why there is none.

    Parameters
    ----------
    duration : float
        Duration in ms; inf if and only if the config failed.
    status : str, default="ok"
        ``"ok"``, or how the config failed: ``"compile_error"``,
        ``"out_of_resources"``, ``"launch_error"``, ``"illegal_access"``,
        ``"timeout"``, ``"wrong_result"``, ``"out_of_memory"`` or ``"error"``.
    reason : str or None, default=None
        Why it failed, shortened to one line of at most 200 characters.
    compile_seconds : float or None, default=None
        Time spent on compiling, in s.
    run_seconds : float or None, default=None
        Time spent on running, repeats and warm-up included, in s.
    duration_p20 : float or None, default=None
        20th percentile of the repeated durations, in ms.
    duration_p80 : float or None, default=None
        80th percentile of the repeated durations, in ms.
    info : dict, optional
        More about the config that JSON can hold, such as its registers.

    Attributes
    ----------
    ok : bool
        Whether the config ran.

    Raises
    ------
    ValueError
        A number is NaN, negative or no number; the status is unknown or contradicts
        the duration; `info` can't be written as JSON.

    Examples
    --------
    >>> from fasta_learn.oracles import Measurement
    >>> Measurement(0.25).ok
    True
    >>> Measurement.failed("timeout", "no answer within 3 s").duration
    inf
    """

    duration: float
    status: str = "ok"
    reason: str | None = None
    compile_seconds: float | None = None
    run_seconds: float | None = None
    duration_p20: float | None = None
    duration_p80: float | None = None
    info: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "duration", _checked("duration", self.duration))
        _check_status(self.status, self.duration)
        for name in _OPTIONAL_NUMBERS:
            value = getattr(self, name)
            if value is not None:
                value = _checked(name, value)
                if math.isinf(value):
                    raise ValueError(f"{name} is inf; use None if it is not known.")
                object.__setattr__(self, name, value)
        if self.reason is not None:
            object.__setattr__(self, "reason", bound_reason(self.reason))
        if self.info:
            object.__setattr__(self, "info", _json_copy("info", self.info))

    @property
    def ok(self) -> bool:
        """Whether the config ran."""
        return self.status == "ok"

    @classmethod
    def failed(
        cls,
        status: str,
        reason: BaseException | str | None = None,
        *,
        compile_seconds: float | None = None,
        run_seconds: float | None = None,
        info: dict[str, Any] | None = None,
    ) -> "Measurement":
        """Make the measurement of a config that failed.

        Parameters
        ----------
        status : str
            Any status but ``"ok"``.
        reason : BaseException or str or None, default=None
            Why it failed.
        compile_seconds : float or None, default=None
            Time spent on compiling, in s.
        run_seconds : float or None, default=None
            Time spent on running, in s.
        info : dict or None, default=None
            More about the config that JSON can hold.

        Returns
        -------
        Measurement
            With an infinite duration.

        Raises
        ------
        ValueError
            The status is ``"ok"`` or unknown.
        """
        return cls(
            math.inf,
            status,
            None if reason is None else bound_reason(reason),
            compile_seconds=compile_seconds,
            run_seconds=run_seconds,
            info=info or {},
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the measurement as a dict that strict JSON can hold.

        Returns
        -------
        dict
            Without what is unknown; an infinite duration is the text ``"inf"``.
        """
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        if not self.ok:
            values["duration"] = "inf"
        return {
            name: value
            for name, value in values.items()
            if value is not None and (value or name != "info")
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Measurement":
        """Make a measurement from what `to_dict` gave.

        Parameters
        ----------
        values : mapping
            The dict.

        Returns
        -------
        Measurement
            Equal to the one that gave the dict.

        Raises
        ------
        ValueError
            A name is unknown, `duration` is missing, or a value is invalid.
        """
        unknown = set(values) - {item.name for item in fields(cls)}
        if unknown or "duration" not in values:
            raise ValueError(
                f"a measurement has a duration and no {sorted(unknown)}; "
                f"got the names {sorted(values)}."
            )
        if values["duration"] == "inf":
            values = {**values, "duration": math.inf}
        return cls(**values)


def _checked(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float.") from None
    if math.isnan(number) or number < 0:
        what = "NaN" if math.isnan(number) else f"negative ({number!r})"
        hint = "; use inf for a config that failed" if name == "duration" else ""
        raise ValueError(f"{name} is {what}{hint}.")
    return number


def _check_status(status: str, duration: float) -> None:
    if status not in STATUSES:
        raise ValueError(f"status must be one of {STATUSES}, got {status!r}.")
    if (status == "ok") != math.isfinite(duration):
        raise ValueError(
            f"status {status!r} contradicts duration {duration!r}: the duration is "
            "inf if and only if the config failed."
        )


def _json_copy(name: str, value: Any) -> Any:
    """Give the value as JSON would bring it back, so that replays are equal."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_python_scalar))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} can't be written as JSON: {error}.") from error


def _python_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON value")
