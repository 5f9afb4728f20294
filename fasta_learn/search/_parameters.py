"""What the parameters of a search stand for."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.search._acquisition import ExpectedImprovement, Greedy
from fasta_learn.search._budget import FixedBatch, GrowingBatch
from fasta_learn.search._engine import SearchEngine
from fasta_learn.search._initial import CentredDesign, RandomDesign, StratifiedDesign
from fasta_learn.search._policies import Policies
from fasta_learn.search._space import PoolSpace

DESIGNS = {
    "centred": CentredDesign(),
    "stratified": StratifiedDesign(),
    "random": RandomDesign(),
}
ACQUISITIONS = {
    "auto": ExpectedImprovement(),
    "expected_improvement": ExpectedImprovement(),
    "greedy": Greedy(),
}


def make_policies(parameters: dict[str, Any]) -> Policies:
    """Return what a search decides by.

    Parameters
    ----------
    parameters : dict
        Validated parameters of `ActiveConfigSearch`.

    Returns
    -------
    Policies
        Names and "auto" replaced by what they stand for.
    """
    estimator, transform = parameters["estimator"], parameters["target_transform"]
    if transform == "auto":
        transform = "speed" if estimator is None else "log"
    batch_size = parameters["batch_size"]
    if batch_size == "auto":
        batch_size = GrowingBatch()
    elif isinstance(batch_size, Integral):
        batch_size = FixedBatch(int(batch_size))
    return Policies(
        estimator=AnovaGaussianProcess() if estimator is None else estimator,
        target_transform=transform,
        initial_design=_named(DESIGNS, parameters["initial_design"]),
        acquisition=_named(ACQUISITIONS, parameters["acquisition"]),
        batch_size=batch_size,
        stopping=parameters["stopping"],
        time_budget=parameters["time_budget"],
    )


def _named(policies: dict[str, Any], choice: Any) -> Any:
    return policies[choice] if isinstance(choice, str) else choice


def as_indices(X: Any) -> NDArray[np.intp] | None:
    """Return one-dimensional integers as pool indices, anything else as None.

    Parameters
    ----------
    X : object
        Pool indices, configs or rows.

    Returns
    -------
    ndarray of shape (n_configs,) or None
        The indices.
    """
    if isinstance(X, (list, tuple, range)):
        is_row = not len(X) or isinstance(X[0], Integral)
    else:
        is_row = len(getattr(X, "shape", ())) == 1
    if not is_row:
        return None
    rows = np.asarray(X)
    if rows.ndim != 1 or not (rows.size == 0 or np.issubdtype(rows.dtype, np.integer)):
        return None
    return rows.astype(np.intp)


def find_init_configs(
    space: PoolSpace, init_configs: Any, n_budget: int
) -> NDArray[np.intp]:
    """Return the pool indices of the configs to measure first.

    Parameters
    ----------
    space : PoolSpace
        The pool.
    init_configs : list of configs or of int, or None
        The configs, or their pool indices.
    n_budget : int
        Measurements in all.

    Returns
    -------
    ndarray of shape (n_init,)
        Pool indices, each once.

    Raises
    ------
    ValueError
        A config is not in the pool, or there are more than the budget allows.
    IndexError
        An index is not in the pool.
    """
    if init_configs is None or not len(init_configs):
        return np.empty(0, dtype=np.intp)
    indices = as_indices(init_configs)
    if indices is None:
        indices = space.positions(init_configs)
    outside = indices[(indices < 0) | (indices >= len(space))]
    if len(outside):
        raise IndexError(
            f"init_configs names index {outside[0]}, but the pool has the indices 0 "
            f"to {len(space) - 1}."
        )
    indices = indices[np.sort(np.unique(indices, return_index=True)[1])]
    if len(indices) > n_budget:
        raise ValueError(
            f"init_configs holds {len(indices)} configs, but the budget allows "
            f"{n_budget} measurements; give fewer or raise `budget`."
        )
    return indices


def find_open_proposals(engine: SearchEngine, indices: Any) -> NDArray[np.intp]:
    """Return pool indices if all of them are open proposals.

    Parameters
    ----------
    engine : SearchEngine
        The search.
    indices : array-like of int of shape (n_configs,)
        The indices.

    Returns
    -------
    ndarray of shape (n_configs,)
        The same.

    Raises
    ------
    ValueError
        One of them is no open proposal, occurs twice or is no whole number.
    IndexError
        An index is not in the pool.
    """
    found = as_indices(np.atleast_1d(indices))
    if found is None:
        raise ValueError(f"indices must be whole numbers, got {indices!r}.")
    engine.ledger.check_indices(found)
    unknown = set(found.tolist()) - set(engine.open_proposals)
    if unknown:
        raise ValueError(
            f"{sorted(unknown)} are no open proposals; discard only what propose() "
            "answered and partial_fit() has not seen."
        )
    return found
