"""What ``import torch`` calls, in every process of an environment with fasta_learn.

So nothing is imported in here before the switch is known to be on, and nothing is
raised: either would be a fault of ``import torch`` to all users of that environment.
"""

import os


def load() -> None:
    """Turn tuning on if the environment variable ``FASTA_LEARN`` says so.

    Compile workers of Inductor only load what they will need: their jobs carry the
    settings.
    """
    wish = os.environ.get("FASTA_LEARN", "").strip().lower()
    if wish not in ("1", "true", "yes", "on"):
        return
    try:
        from fasta_learn.inductor import _switch, _workers

        if _workers.is_worker():
            _workers.preload()
        else:
            _switch.enable()
    except Exception as error:
        import logging

        logging.getLogger("fasta_learn.inductor").warning(
            "FASTA_LEARN=%s is ignored, kernels are not tuned: %s", wish, error
        )
