"""Never worse: whatever fails in here, Inductor does what it would have done."""

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("fasta_learn.inductor")

_warned: set[str] = set()
_lock = threading.Lock()


def guarded(
    feature: str, ours: Callable[..., Any], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that falls back to what Inductor would have done.

    Parameters
    ----------
    feature : str
        What the function is for; there is one warning for each.
    ours : callable
        What to call. Where it raises, it must have done nothing that makes it wrong
        to call `stock` then.
    stock : callable
        What to call with the same arguments if `ours` raises.

    Returns
    -------
    callable
        It has the name and signature of `stock`, and raises what `stock` raises.
    """

    @functools.wraps(stock)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except Exception as error:
            warn_once(feature, error)
        return stock(*args, **kwargs)

    return call


def warn_once(feature: str, error: BaseException) -> None:
    """Log that a feature gave up, the first time that it does so in this process.

    Parameters
    ----------
    feature : str
        What gave up.
    error : BaseException
        Why.
    """
    with _lock:
        is_first = feature not in _warned
        _warned.add(feature)
    logger.log(
        logging.WARNING if is_first else logging.DEBUG,
        "tuning of %s failed (%s: %s), so Inductor's own way is taken; this is a "
        "fault of fasta_learn: please report it with the traceback that "
        "logging.getLogger('fasta_learn.inductor').setLevel('DEBUG') shows, and with "
        "the output of 'fasta-learn doctor'.",
        feature,
        type(error).__name__,
        error,
        exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
    )
