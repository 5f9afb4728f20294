"""What ``import torch`` calls, in every process of an environment with fasta_learn.

So nothing is imported in here before the switch is known to be on, and nothing is
raised: either would be a fault of ``import torch`` to all users of that environment.
"""

import os


def load() -> None:
    """Turn on what the environment asks for.

    ``FASTA_LEARN`` is the switch of tuning, ``FASTA_LEARN_HEURISTICS`` that of the
    installed heuristics.
    """
    if _is_asked_for("FASTA_LEARN_HEURISTICS"):
        _load_heuristics()
    if _is_asked_for("FASTA_LEARN"):
        _load_tuning()


def _is_asked_for(name: str) -> bool:
    wish = os.environ.get(name, "").strip().lower()
    return wish in ("1", "true", "yes", "on")


def _load_heuristics() -> None:
    try:
        from fasta_learn.heuristics import _activate

        _activate.activate()
    except Exception as error:
        import logging

        logging.getLogger("fasta_learn.heuristics").warning(
            "FASTA_LEARN_HEURISTICS is ignored: %s", error
        )


def _load_tuning() -> None:
    """Tune, but in compile workers only load what they need: jobs carry settings."""
    try:
        from fasta_learn.inductor import _switch, _workers

        if _workers.is_worker():
            _workers.preload()
        else:
            _switch.enable()
    except Exception as error:
        import logging

        logging.getLogger("fasta_learn.inductor").warning(
            "FASTA_LEARN=%s is ignored, kernels are not tuned: %s",
            os.environ["FASTA_LEARN"].strip().lower(),
            error,
        )
