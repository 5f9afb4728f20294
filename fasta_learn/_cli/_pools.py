"""What the help texts say about the pools that ship."""

from fasta_learn.datasets import list_pools
from fasta_learn.datasets._pools import COLLECTIONS


def name_pools() -> str:
    """Return the names of the pools that ship, by collection.

    Returns
    -------
    str
        A paragraph.
    """
    parts = [f"{name}: {', '.join(list_pools(name))}" for name in COLLECTIONS]
    return f"Pools that ship with fasta-learn, in {'; in '.join(parts)}."
