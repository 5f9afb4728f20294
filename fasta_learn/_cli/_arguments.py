"""Arguments that several commands have."""

import argparse


def parse_budget(text: str) -> float | int:
    """Read a budget.

    Parameters
    ----------
    text : str
        A share of the configs (``0.2``, ``20%``, ``1.0``) or a number of them (``40``).

    Returns
    -------
    float or int
        The share or the number.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is neither.
    """
    try:
        if text.isdecimal():
            budget: float | int = int(text)
        elif text.endswith("%"):
            budget = float(text[:-1]) / 100
        else:
            budget = float(text)
    except ValueError:
        budget = 0
    if not (budget > 0 and (isinstance(budget, int) or budget <= 1)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a share of the configs, above 0 and up to 1.0, nor a "
            "whole number of them"
        )
    return budget


def parse_probability(text: str) -> float:
    """Read a probability.

    Parameters
    ----------
    text : str
        A number between 0 and 1 (``0.95``), or a percentage (``95%``).

    Returns
    -------
    float
        The probability.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is neither.
    """
    try:
        probability = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        probability = 0.0
    if not 0 < probability < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no probability above 0 and below 1"
        )
    return probability


def parse_seed(text: str) -> int:
    """Read a seed.

    Parameters
    ----------
    text : str
        A whole number below 2**32.

    Returns
    -------
    int
        The seed.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is no such number.
    """
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number from 0 to {2**32 - 1}"
        )
    return int(text)


def parse_seconds(text: str) -> float:
    """Read a span of time.

    Parameters
    ----------
    text : str
        A positive number of seconds.

    Returns
    -------
    float
        The seconds.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is no such number.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return seconds


def parse_count(text: str) -> int:
    """Read how many.

    Parameters
    ----------
    text : str
        A whole number of at least 1.

    Returns
    -------
    int
        The number.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is no such number.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def parse_jobs(text: str) -> int:
    """Read a number of parallel processes.

    Parameters
    ----------
    text : str
        A whole number of at least 1, or -1 for all processors.

    Returns
    -------
    int
        The number.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is no such number.
    """
    if text == "-1":
        return -1
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a whole number of at least 1 nor -1 (all processors)"
        )
    return int(text)
