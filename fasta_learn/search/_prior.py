"""How a search leans on predicted costs while it has measured little."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.search._initial import CentredDesign
from fasta_learn.search._policies import Policies
from fasta_learn.search._space import PoolSpace
from fasta_learn.search._state import SearchState
from fasta_learn.search._subset import WorkingSetSurrogate
from fasta_learn.search._surrogate import PoolSurrogate

# A blind sample of five configs is enough where a prior says where to look. Three
# find more within a twentieth of a pool, but less within a tenth or a fifth.
_N_INITIAL = 5

# Loses nearly all of the best speed; the reciprocal of nothing is left out.
_MAX_COST = 0.99


def leaning_n_initial(n_initial: Any) -> Any:
    """Return the size of the first sample of a search with a prior.

    Parameters
    ----------
    n_initial : "auto", float or int
        Parameter of the search.

    Returns
    -------
    float or int
        What "auto" stands for, or the parameter.
    """
    return _N_INITIAL if isinstance(n_initial, str) else n_initial


def predict_costs(prior: Any, space: PoolSpace) -> NDArray[np.float64] | None:
    """Return what a prior expects of the configs of a pool.

    Parameters
    ----------
    prior : object with ``predict``, or None
        Predicts which share of the best speed configs lose.
    space : PoolSpace
        The pool.

    Returns
    -------
    ndarray of shape (n_pool,) or None
        The costs; None if there is no prior, or it tells no configs apart.

    Raises
    ------
    ValueError
        The prior answered something else than a finite number for each config.
    """
    if prior is None:
        return None
    costs = np.asarray(prior.predict(space.items), dtype=np.float64)
    if costs.shape != (len(space),) or not np.isfinite(costs).all():
        raise ValueError(
            f"prior.predict answered an array of shape {costs.shape} for "
            f"{len(space)} configs; it must answer a finite number for each."
        )
    return costs if np.ptp(costs) > 0 else None


@dataclass(frozen=True, eq=False)
class LeaningDesign(CentredDesign):
    """The centred design, leaning to configs that a prior expects to be fast.

    The config of the least expected cost comes first. The weights of the others
    fall with the expected cost, by exp(-lean) for each standard deviation.

    Parameters
    ----------
    concentration, balance : float
        As in `CentredDesign`.
    costs : ndarray of shape (n_pool,)
        Expected costs.
    lean : float, default=4
        How strongly they count.
    """

    costs: NDArray[np.float64] | None = None
    lean: float = 4.0

    def __call__(self, state: SearchState, n_configs: int) -> NDArray[np.intp]:
        """Return the pool indices to measure."""
        assert self.costs is not None
        first = state.available[[np.argmin(self.costs[state.available])]]
        if n_configs == 1:
            return first
        rest = replace(
            state,
            available=np.setdiff1d(state.available, first),
            pending=np.append(state.pending, first),
        )
        return np.append(first, super().__call__(rest, n_configs - 1))

    def _preference(self, state: SearchState) -> NDArray[np.float64]:
        assert self.costs is not None
        cost = self.costs / self.costs.std()
        return super()._preference(state) - self.lean * (cost - cost.min())


class PriorSurrogate(PoolSurrogate):
    """Learns what the measurements tell beyond expected costs.

    The expected costs, times a slope, are the mean from which the inner surrogate
    learns deviations. The slope is that of a line through the measurements, where the
    slope of one, which a true prior has, counts as one of them; it stays within zero
    and one. So a wrong prior fades as soon as measurements contradict it.

    Parameters
    ----------
    inner : PoolSurrogate
        Learns the deviations.
    costs : ndarray of shape (n_pool,)
        Expected share of the best speed that is lost.
    target_transform : {"speed", "log", "identity"}
        What the surrogate learns of the durations.
    """

    def __init__(self, inner: PoolSurrogate, costs: NDArray, target_transform: str):
        self.inner, self.basis = inner, inner.basis
        self._transform = target_transform
        self._costs = costs

    def fit(self, rows: NDArray, target: NDArray) -> None:
        """Learn the targets of the measured rows, which grow from call to call."""
        expected = self._expected(float(target.min()))
        mean = _slope(expected[rows], target, float(expected.var())) * expected
        residuals = target - mean[rows]
        self.inner.fit(rows, residuals)
        self.mean, self.std = self.inner.mean + mean, self.inner.std
        self.incumbent, self.basis = float(target.min()), self.inner.basis
        share = residuals.var() / target.var() if target.var() > 0 else 1.0
        self.r2 = float(np.clip(1.0 - (1.0 - self.inner.r2) * share, 0.0, 1.0))

    def _fit(self, rows: NDArray, target: NDArray) -> None:
        self.fit(rows, target)

    def _expected(self, best: float) -> NDArray[np.float64]:
        """Expected costs as targets."""
        if self._transform == "speed":
            return self._costs
        ratio = 1.0 / (1.0 - np.minimum(self._costs, _MAX_COST))
        return np.log(ratio) if self._transform == "log" else best * ratio

    def imagine(self, row: int) -> NDArray[np.float64]:
        """Return `std`, had this row come out as predicted."""
        return self.inner.imagine(row)

    def forget(self) -> None:
        """Undo every `imagine`."""
        self.inner.forget()

    def fitted_estimator(self, rows: NDArray, target: NDArray) -> Any:
        """Return a new regressor, fitted to the targets of the rows alone."""
        return self.inner.fitted_estimator(rows, target)


def _slope(expected: NDArray, target: NDArray, variance: float) -> float:
    """Slope of targets by expected ones, with one more measurement of slope one."""
    deviation = expected - expected.mean()
    covered = deviation @ (target - target.mean()) + variance
    return float(np.clip(covered / (deviation @ deviation + variance), 0.0, 1.0))


def lean_policies(policies: Policies, costs: NDArray | None) -> Policies:
    """Return policies that use expected costs, if there are any.

    Parameters
    ----------
    policies : Policies
        What a search decides by.
    costs : ndarray of shape (n_pool,) or None
        Expected share of the best speed that is lost.

    Returns
    -------
    Policies
        The same, with the costs, and the centred design leaning by them.
    """
    if costs is None:
        return policies
    design = policies.initial_design
    if type(design) is CentredDesign:
        design = LeaningDesign(design.concentration, design.balance, costs)
    return replace(policies, initial_design=design, costs=costs)


def lean_surrogate(surrogate: PoolSurrogate, policies: Policies) -> PoolSurrogate:
    """Return a surrogate that begins with the expected costs, if there are any.

    Parameters
    ----------
    surrogate : PoolSurrogate
        Over a pool.
    policies : Policies
        What the search decides by.

    Returns
    -------
    PoolSurrogate
        The surrogate itself if there are no costs, or the pool is so large that it
        is predicted in part: there only the first sample leans.
    """
    if policies.costs is None or isinstance(surrogate, WorkingSetSurrogate):
        return surrogate
    return PriorSurrogate(surrogate, policies.costs, policies.target_transform)
