"""What a search may propose soon, for oracles that make configs ready ahead."""

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._acquisition import rank_improvements
from fasta_learn.search._policies import Policies, checked_choice
from fasta_learn.search._state import SearchState


def guess_next(
    state: SearchState, policies: Policies, n_configs: int
) -> NDArray[np.intp]:
    """Return configs that are likely to be proposed next.

    Half of them are what would be proposed if all open proposals came out as predicted,
    one after the other; they are near to one another only if that promises much. The
    other half promise most by what is known now, as some measurement will surprise.
    Before a surrogate knows anything, they are what a prior expects to be fast.

    Parameters
    ----------
    state : SearchState
        The search, with a generator that is not used elsewhere.
    policies : Policies
        What the search decides by.
    n_configs : int
        How many at most.

    Returns
    -------
    ndarray of shape (n_guesses,)
        Distinct pool indices, most likely first; none if nothing is known.
    """
    n_configs = min(n_configs, len(state.available))
    if n_configs < 1:
        return np.empty(0, dtype=np.intp)
    if state.surrogate is None:
        if policies.costs is None:
            return np.empty(0, dtype=np.intp)
        order = np.argsort(policies.costs[state.available], kind="stable")
        return state.available[order[:n_configs]]
    believed = checked_choice(policies.acquisition, state, (n_configs + 1) // 2)
    others = rank_improvements(state, n_configs)
    others = others[~np.isin(others, believed)]
    return np.append(believed, others)[:n_configs]
