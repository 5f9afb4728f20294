"""The dynamic filter as a setting of the search."""

from numbers import Real
from typing import Any

from fasta_learn._compat import StrOptions, validate_params
from fasta_learn.configs import ConfigVectorizer
from fasta_learn.model_selection import ModelSelector
from fasta_learn.search._acquisition import SoftmaxMarginal
from fasta_learn.search._active import ActiveConfigSearch
from fasta_learn.search._budget import EqualBatches, RoutedBudget, ScaledBudget
from fasta_learn.search._initial import StratifiedDesign
from fasta_learn.search._stopping import Convergence

_BUDGETS = {
    "production": RoutedBudget(
        base=0.35, high=0.40, low=0.25, first=0.30, first_floor=0.10, first_low=0.12
    ),
    "reference": RoutedBudget(
        base=0.35, high=0.50, low=None, first=0.15, first_floor=0.10, first_low=None
    ),
}
_MAX_ROUNDS = {"production": 2, "reference": 5}
_MARGINS = {"production": 2.0, "reference": 2.5}


@validate_params(
    {"profile": [StrOptions({"production", "reference"})]},
    prefer_skip_nested_validation=True,
)
def dynamic_filter_search(
    profile: str = "production", **overrides: Any
) -> ActiveConfigSearch:
    """Return a search that follows the dynamic filter of torch_npu.

    A blind stratified sample, five ridge bases that compete by leave-one-out rank
    correlation, batches drawn by a softmax over predictions and marginal means, and
    an early stop. Everything that decides what is measured is as in the original,
    raw features, raw durations and absolute temperatures included; failed configs
    never enter the model.

    Parameters
    ----------
    profile : {"production", "reference"}, default="production"
        The constants of its code, or those of its mathematical description.
    **overrides : dict
        Parameters of `ActiveConfigSearch` that replace those of the profile. A
        number as `budget` is measured in all, the blind sample keeping its share
        of it; the profile's own budget depends on the pool.

    Returns
    -------
    ActiveConfigSearch
        Not yet fitted.

    Raises
    ------
    ValueError
        The profile is unknown.
    TypeError
        An override is no parameter of `ActiveConfigSearch`.

    References
    ----------
    Ascend/pytorch pull request 37655, "Inductor Autotuning Optimization for Triton
    Ascend".

    Examples
    --------
    >>> from fasta_learn import dynamic_filter_search
    >>> configs = [{"X0BLOCK": 2**i, "R0BLOCK": 2**j}
    ...            for i in range(10) for j in range(6)]
    >>> durations = [1 + 0.1 * (i - 5) ** 2 + 0.1 * (j - 2) ** 2
    ...              for i in range(10) for j in range(6)]
    >>> search = dynamic_filter_search(random_state=0).fit(configs, durations)
    >>> search.n_budget_
    24
    """
    parameters: dict[str, Any] = {
        "estimator": ModelSelector(alpha=0.1, scoring="spearman"),
        "budget": _BUDGETS[profile],
        "batch_size": EqualBatches(_MAX_ROUNDS[profile]),
        "initial_design": StratifiedDesign(),
        "acquisition": SoftmaxMarginal(),
        "stopping": Convergence(_MARGINS[profile], max_rounds=_MAX_ROUNDS[profile]),
        "vectorizer": ConfigVectorizer(),
        "target_transform": "identity",
    }
    parameters.update(overrides)
    if isinstance(parameters["budget"], Real):
        amount: Any = parameters["budget"]
        parameters["budget"] = ScaledBudget(_BUDGETS[profile], amount)
    return ActiveConfigSearch(**parameters)
