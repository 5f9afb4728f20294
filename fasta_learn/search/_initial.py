"""Initial designs: which configs to measure before anything is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._policies import ChoosingPolicy
from fasta_learn.search._state import SearchState


@dataclass(frozen=True)
class RandomDesign(ChoosingPolicy):
    """Draw configs uniformly without replacement.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import RandomDesign
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(
    ...     initial_design=RandomDesign(), n_initial=8, random_state=0
    ... )
    >>> first = search.propose(pool.configs)
    >>> sorted({pool.configs[i]["BLOCK_M"] for i in first})
    [64, 128]
    """

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        return state.rng.choice(state.available, n_configs, replace=False)


@dataclass(frozen=True)
class StratifiedDesign(ChoosingPolicy):
    """Cover the values of every feature, that with the most values first.

    For each value of the feature with the most values one random config is taken
    that has it and was not yet chosen, then for the next feature; the rest is
    drawn at random. This is the first sample of the dynamic filter.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import StratifiedDesign
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(
    ...     initial_design=StratifiedDesign(), n_initial=8, random_state=0
    ... )
    >>> first = search.propose(pool.configs)
    >>> sorted({pool.configs[i]["BLOCK_M"] for i in first})
    [16, 32, 64, 128, 256]
    """

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        free = np.zeros(len(state.features), dtype=bool)
        free[state.available] = True
        chosen: list[int] = []
        for values in _by_cardinality(state.features):
            for value in np.unique(values):
                if len(chosen) == n_configs:
                    return np.array(chosen, dtype=np.intp)
                candidates = np.flatnonzero(free & (values == value))
                if len(candidates):
                    chosen.append(int(state.rng.choice(candidates)))
                    free[chosen[-1]] = False
        rest = state.rng.choice(
            np.flatnonzero(free), n_configs - len(chosen), replace=False
        )
        return np.concatenate([np.array(chosen, dtype=np.intp), rest])


def _by_cardinality(features: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Columns with more than one value, those with the most values first."""
    columns = [column for column in features.T if np.ptp(column) > 0]
    return sorted(columns, key=lambda column: -len(np.unique(column)))


@dataclass(frozen=True)
class CentredDesign(ChoosingPolicy):
    """Cover the values of every feature, preferring the middle of the pool.

    The extremes of tile sizes are rarely fast: tiny tiles starve the machine, huge
    ones spill. Configs are drawn one by one, in turn balanced over the values of
    each feature, with a probability that falls with the squared distance from the
    median config. Features of two values have no middle and do not count there.

    Parameters
    ----------
    concentration : float, default=15
        How fast the probability falls: by exp(-concentration) over the whole range
        of one feature.
    balance : float, default=1.5
        How strongly values that were drawn already are avoided: by exp(-balance)
        for each time.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch, datasets
    >>> from fasta_learn.search import CentredDesign
    >>> pool = datasets.load_pool("mm_2048_2048_2048")
    >>> search = ActiveConfigSearch(
    ...     initial_design=CentredDesign(concentration=5), n_initial=8, random_state=0
    ... )
    >>> first = search.propose(pool.configs)
    >>> sorted({pool.configs[i]["BLOCK_M"] for i in first})
    [32, 64, 128]
    """

    concentration: float = 15.0
    balance: float = 1.5

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        log_weight = self._preference(state)
        free = np.full(len(state.features), -np.inf)
        free[state.available] = 0.0
        columns = _by_cardinality(state.features) or [np.zeros(len(state.features))]
        levels = [np.unique(column, return_inverse=True)[1] for column in columns]
        drawn = np.concatenate([state.measured, state.pending]).astype(np.intp)
        counts = [np.bincount(level[drawn], minlength=len(level)) for level in levels]
        chosen = np.empty(n_configs, dtype=np.intp)
        for i in range(n_configs):
            turn = i % len(levels)
            score = log_weight - self.balance * counts[turn][levels[turn]] + free
            weight = np.exp(score - score.max())
            chosen[i] = state.rng.choice(len(weight), p=weight / weight.sum())
            free[chosen[i]] = -np.inf
            for count, level in zip(counts, levels, strict=True):
                count[level[chosen[i]]] += 1
        return chosen

    def _preference(self, state: SearchState) -> NDArray[np.float64]:
        """Logarithm of the weight that each config has at first."""
        return -self.concentration * _centre_distance(state.features)


def _centre_distance(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distance of each row from the median of the pool."""
    wide = [column for column in features.T if len(np.unique(column)) > 2]
    if not wide:
        return np.zeros(len(features))
    columns = np.column_stack(wide)
    squares = (columns - np.median(columns, axis=0)) ** 2
    distance: NDArray[np.float64] = squares.sum(axis=1)
    return distance
