"""The budgeted search and its policies."""

from fasta_learn.search._acquisition import (
    ExpectedImprovement,
    Greedy,
    SoftmaxMarginal,
)
from fasta_learn.search._active import ActiveConfigSearch
from fasta_learn.search._budget import (
    BudgetPlan,
    EqualBatches,
    FixedBatch,
    GrowingBatch,
    RoutedBudget,
    ScaledBudget,
)
from fasta_learn.search._initial import CentredDesign, RandomDesign, StratifiedDesign
from fasta_learn.search._presets import dynamic_filter_search
from fasta_learn.search._state import SearchState
from fasta_learn.search._stopping import Convergence

__all__ = [
    "ActiveConfigSearch",
    "BudgetPlan",
    "CentredDesign",
    "Convergence",
    "EqualBatches",
    "ExpectedImprovement",
    "FixedBatch",
    "Greedy",
    "GrowingBatch",
    "RandomDesign",
    "RoutedBudget",
    "ScaledBudget",
    "SearchState",
    "SoftmaxMarginal",
    "StratifiedDesign",
    "dynamic_filter_search",
]
