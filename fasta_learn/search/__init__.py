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
from fasta_learn.search._cost import ExpectedImprovementPerSecond
from fasta_learn.search._initial import CentredDesign, RandomDesign, StratifiedDesign
from fasta_learn.search._presets import dynamic_filter_search
from fasta_learn.search._racing import Racing
from fasta_learn.search._state import SearchState
from fasta_learn.search._stopping import CertaintyStop, Convergence

__all__ = [
    "ActiveConfigSearch",
    "BudgetPlan",
    "CentredDesign",
    "CertaintyStop",
    "Convergence",
    "EqualBatches",
    "ExpectedImprovement",
    "ExpectedImprovementPerSecond",
    "FixedBatch",
    "Greedy",
    "GrowingBatch",
    "Racing",
    "RandomDesign",
    "RoutedBudget",
    "ScaledBudget",
    "SearchState",
    "SoftmaxMarginal",
    "StratifiedDesign",
    "dynamic_filter_search",
]
