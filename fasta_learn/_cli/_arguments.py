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
