"""Replays of searches over recorded pools, and what they tell."""

from fasta_learn.experiments._compare import compare
from fasta_learn.experiments._curves import regret_curves
from fasta_learn.experiments._plot import plot_regret
from fasta_learn.experiments._portfolio import Portfolio, portfolio
from fasta_learn.experiments._record import Recording, record_pool
from fasta_learn.experiments._replay import replay
from fasta_learn.experiments._searches import RandomSearch, ScaledDynamicFilter
from fasta_learn.experiments._summary import summarize

__all__ = [
    "Portfolio",
    "RandomSearch",
    "Recording",
    "ScaledDynamicFilter",
    "compare",
    "plot_regret",
    "portfolio",
    "record_pool",
    "regret_curves",
    "replay",
    "summarize",
]
