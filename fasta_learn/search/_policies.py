"""What a search decides by."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._state import SearchState


class ChoosingPolicy(ABC):
    """Chooses which configs are measured next."""

    @abstractmethod
    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        """Return the pool indices to measure.

        Parameters
        ----------
        state : SearchState
            The search; an acquisition needs its fitted surrogate.
        n_configs : int
            How many to choose, at most the number of available configs.

        Returns
        -------
        ndarray of shape (n_configs,)
            Distinct available pool indices, best first.
        """


@dataclass(frozen=True)
class Policies:
    """What a search decides by.

    Attributes
    ----------
    estimator : regressor
        Unfitted surrogate.
    target_transform : str
        What it learns.
    initial_design, acquisition : callable
        Functions of ``(state, n_configs)`` that answer pool indices.
    batch_size : callable
        Function of the state that answers a number.
    stopping : callable or None
        Function of ``(state, rounds)`` that answers a reason or None.
    time_budget : float or None
        Seconds after which nothing more is proposed.
    costs : ndarray of shape (n_pool,) or None
        What a prior expects: the share of the best speed that each config loses.
    """

    estimator: Any
    target_transform: str
    initial_design: Callable[[SearchState, int], NDArray[np.intp]]
    acquisition: Callable[[SearchState, int], NDArray[np.intp]]
    batch_size: Callable[[SearchState], int]
    stopping: Callable[[SearchState, list[dict[str, Any]]], str | None] | None
    time_budget: float | None
    costs: NDArray[np.float64] | None = None


def checked_choice(
    policy: Callable[[SearchState, int], NDArray[np.intp]],
    state: SearchState,
    n_configs: int,
) -> NDArray[np.intp]:
    """Ask a policy for configs and refuse an answer that can't be measured.

    Parameters
    ----------
    policy : callable
        Function of ``(state, n_configs)`` that answers pool indices.
    state : SearchState
        The search.
    n_configs : int
        How many to ask for.

    Returns
    -------
    ndarray of shape (n_chosen,)
        One to `n_configs` distinct available pool indices.

    Raises
    ------
    ValueError
        The policy answered something else.
    """
    chosen = np.asarray(policy(state, n_configs))
    if (
        chosen.ndim != 1
        or not np.issubdtype(chosen.dtype, np.integer)
        or not 1 <= len(np.unique(chosen)) == len(chosen) <= n_configs
        or not np.isin(chosen, state.available).all()
    ):
        raise ValueError(
            f"{policy!r} answered {chosen!r}; a policy must answer a 1-D array of 1 to "
            f"{n_configs} distinct indices out of state.available."
        )
    return chosen.astype(np.intp)
