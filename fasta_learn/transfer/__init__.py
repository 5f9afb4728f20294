"""Transfer: recorded pools make the first measurements of a search count."""

from fasta_learn.transfer._default import load_default_prior
from fasta_learn.transfer._prior import PoolPrior

__all__ = ["PoolPrior", "load_default_prior"]
