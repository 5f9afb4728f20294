"""Lines about a running search."""

import sys
from typing import Any


def report_round(record: dict[str, Any], n_budget: int) -> None:
    """Write a line about a round to the standard error.

    Parameters
    ----------
    record : dict
        The record of the round, as in `ActiveConfigSearch.rounds_`.
    n_budget : int
        Measurements in all.
    """
    sys.stderr.write(
        f"round {record['round']}: {record['n_measured']} of {n_budget} measured, "
        f"best {record['best_duration']:.6g} ms\n"
    )
