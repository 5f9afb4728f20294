"""What a search tells of itself at its end."""

from typing import Any

import numpy as np

from fasta_learn.search._engine import SearchEngine


def summarize(engine: SearchEngine) -> dict[str, Any]:
    """Return the record of a whole search.

    Parameters
    ----------
    engine : SearchEngine
        The search.

    Returns
    -------
    dict
        As `ActiveConfigSearch.summary_`.
    """
    n_pool, n_measured = len(engine.space), len(engine.ledger.order)
    return {
        "n_configs": n_pool,
        "n_features": engine.space.features.shape[1],
        "budget_class": engine.plan.label,
        "path": "coverage" if engine.covers else "model",
        "n_measured": n_measured,
        "savings": 1.0 - n_measured / n_pool,
        "n_rounds": len(engine.rounds),
        "best_duration": np.inf if engine.result is None else engine.result[1],
        "stop_reason": engine.stop_reason,
        "confidence": engine.confidence,
        "confidence_label": engine.confidence_label,
        "overhead_seconds": engine.overhead_seconds,
    }
