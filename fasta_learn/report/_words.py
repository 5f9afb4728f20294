"""Words for the facts about a search, shared by the page and the text."""

from typing import Any

from fasta_learn._text import format_duration, format_share
from fasta_learn.configs._formats import format_config


def duration(value: float | None) -> str:
    """Return a duration in a fitting unit.

    Parameters
    ----------
    value : float or None
        In ms.

    Returns
    -------
    str
        "-" if it is unknown.
    """
    return "-" if value is None else format_duration(value)


def share(value: float | None) -> str:
    """Return a share in percent.

    Parameters
    ----------
    value : float or None
        The share.

    Returns
    -------
    str
        "-" if it is unknown.
    """
    return "-" if value is None else format_share(value)


def ratio(value: float | None) -> str:
    """Return a ratio with three decimals.

    Parameters
    ----------
    value : float or None
        The ratio.

    Returns
    -------
    str
        "-" if it is unknown.
    """
    return "-" if value is None else f"{value:.3f}"


def number(value: int | None) -> str:
    """Return a number.

    Parameters
    ----------
    value : int or None
        The number.

    Returns
    -------
    str
        "-" if it is unknown.
    """
    return "-" if value is None else f"{value}"


def seconds(value: float) -> str:
    """Return a span of time.

    Parameters
    ----------
    value : float
        In s.

    Returns
    -------
    str
        With hours or minutes if it is long.
    """
    if value >= 3600:
        return f"{value / 3600:.1f} h"
    if value >= 120:
        return f"{value / 60:.1f} min"
    return f"{value:.3g} s" if value >= 0.1 or not value else f"{1000 * value:.2g} ms"


def config(row: dict[str, Any]) -> str:
    """Return a config, or else where it is in the pool.

    Parameters
    ----------
    row : dict
        A measurement.

    Returns
    -------
    str
        Such as "BLOCK=64, num_warps=4".
    """
    if row["config"]:
        return format_config(row["config"])
    return _place(row["index"])


def _place(index: int | None) -> str:
    return "not in the file" if index is None else f"config {index} of the pool"


def to_copy(best: dict[str, Any]) -> str:
    """Return the config as code.

    Parameters
    ----------
    best : dict
        The best measurement.

    Returns
    -------
    str
        A ``triton.Config`` if it looks like one, else a dict, or a remark on which
        config of the pool it is.
    """
    if best["triton_config"]:
        return str(best["triton_config"])
    return repr(best["config"]) if best["config"] else config(best)


def predicted(facts: dict[str, Any]) -> str:
    """Tell how good the predictions are.

    Parameters
    ----------
    facts : dict
        Of a search.

    Returns
    -------
    str
        A sentence or two.
    """
    known = facts["predictions"]
    if known["origin"] is None:
        return (
            "There are no predictions: too few configs ran, or the file does not hold "
            "their parameters."
        )
    words = "These were predicted by the search before it measured."
    if known["origin"] == "left out":
        words = (
            "A journal does not keep what the search predicted. Here the default "
            "surrogate predicts each config from the other measurements."
        )
    n_pairs = len(known["pairs"])
    words += f" {n_pairs} configs"
    if known["median_error"] is not None:
        words += f", median error {share(known['median_error'])}"
    if known["rank_correlation"] is not None:
        words += f", rank correlation {known['rank_correlation']:.2f}"
    return f"{words}."


def reason(failure: dict[str, Any]) -> str:
    """Tell why configs failed.

    Parameters
    ----------
    failure : dict
        Of a group of failed configs.

    Returns
    -------
    str
        The reason of the first of them.
    """
    words = failure["reason"] or "-"
    if failure["n_reasons"] > 1:
        words += f" (there are {failure['n_reasons']} that differ in numbers only)"
    return str(words)


def cost(facts: dict[str, Any]) -> str:
    """Tell what the measurements cost.

    Parameters
    ----------
    facts : dict
        Of a search.

    Returns
    -------
    str
        A sentence.
    """
    time = facts["time"]
    if not time["n_known"]:
        return "The file does not say how long compiling and running took."
    words = (
        f"{seconds(time['compile_seconds'])} of compiling and "
        f"{seconds(time['run_seconds'])} of running"
    )
    if time["n_known"] < facts["n_measured"]:
        words += f", known for {time['n_known']} of {facts['n_measured']} measurements"
    if facts["n_failed"]:
        words += (
            f"; {seconds(time['failed_seconds'])} of it went to configs that failed"
        )
    if facts["n_repeats"]:
        words += (
            f"; repeating finalists took {seconds(time['repeat_seconds'])} on top of it"
        )
    return f"{words}."
