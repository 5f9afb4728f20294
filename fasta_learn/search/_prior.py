"""How a search leans on predicted costs while it has measured little."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fasta_learn.search._budget import whole_sample
from fasta_learn.search._initial import CentredDesign
from fasta_learn.search._policies import Policies
from fasta_learn.search._space import PoolSpace
from fasta_learn.search._state import SearchState
from fasta_learn.search._subset import MAX_WHOLE, WorkingSetSurrogate
from fasta_learn.search._surrogate import PoolSurrogate
from fasta_learn.transfer import load_default_prior
from fasta_learn.transfer._default import is_triton_pool

# Slopes of 36 recorded pools by priors from other kernels: 0.9 on average, with a
# standard deviation of 0.5.
_SLOPE_VARIANCE = 0.25

# With all that a prior tells as the mean, what is left looks like noise, and the search
# walks down the prior's list. With three to five tenths of it, it finds more (15 and 15
# recorded pools, 10 seeds).
_SHARE = 0.4

# How probable it is, before anything is measured, that a prior tells something. More
# gains little where it does, and costs more where it does not.
_TRUST = 0.7

# In pools of 20 to 29 configs of which 8 are measured, the prior that ships raised the
# mean regret from 0.7 to 2 %.
_MIN_POOL = 64

# Loses nearly all of the best speed; the reciprocal of nothing is left out.
_MAX_COST = 0.99


def choose_prior(prior: Any, estimator: Any, space: PoolSpace) -> Any:
    """Return the prior that a search of a pool uses.

    Parameters
    ----------
    prior : "auto", object with ``predict``, or None
        Parameter of the search.
    estimator : regressor or None
        Parameter of the search.
    space : PoolSpace
        The pool.

    Returns
    -------
    object with ``predict`` or None
        "auto" is the prior that ships with the package, where the surrogate is the
        default one and the pool is one of Triton configs; not in pools that are so
        small that little is to be saved, nor in those that are predicted in part.
    """
    if not isinstance(prior, str):
        return prior
    serves = (
        estimator is None
        and _MIN_POOL <= len(space) <= MAX_WHOLE
        and is_triton_pool(space.items)
    )
    return load_default_prior() if serves else None


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

    The config of the least expected cost comes first. Where the budget is too small
    for the whole sample of a search (three configs more than there are features), the
    weights of the others fall with the expected cost, by exp(-lean) for each standard
    deviation. A whole sample does not lean: it is what tells a wrong prior from a right
    one.

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
        assert self.costs is not None
        first = state.available[[np.argmin(self.costs[state.available])]]
        if n_configs == 1:
            return first
        if n_configs >= whole_sample(state.features.shape[1]):
            design = CentredDesign(self.concentration, self.balance)
            return np.append(first, design(_without(state, first), n_configs - 1))
        return np.append(first, super().__call__(_without(state, first), n_configs - 1))

    def _preference(self, state: SearchState) -> NDArray[np.float64]:
        assert self.costs is not None
        cost = self.costs / self.costs.std()
        malus: NDArray[np.float64] = self.lean * (cost - cost.min())
        return super()._preference(state) - malus


def _without(state: SearchState, chosen: NDArray[np.intp]) -> SearchState:
    """What the search will see once some configs are proposed."""
    return replace(
        state,
        available=np.setdiff1d(state.available, chosen),
        pending=np.append(state.pending, chosen),
    )


class PriorSurrogate(PoolSurrogate):
    """Learns what the measurements tell beyond expected costs.

    The expected costs, times a slope, are the mean from which the inner surrogate
    learns deviations. The slope is a share of what all measurements bear out (see
    `trusted_slope`), so a wrong prior fades as they contradict it.

    Parameters
    ----------
    inner : PoolSurrogate
        Learns the deviations.
    costs : ndarray of shape (n_pool,)
        Expected share of the best speed that is lost.
    target_transform : {"speed", "log", "identity"}
        What the surrogate learns of the durations.
    """

    def __init__(
        self, inner: PoolSurrogate, costs: NDArray[np.float64], target_transform: str
    ):
        self.inner, self.basis = inner, inner.basis
        self._transform = target_transform
        self._costs = costs
        self._slope = _SHARE

    def fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        """Learn the targets of the measured rows, which grow from call to call."""
        expected = self._expected(float(target.min()))
        design = np.stack([np.ones(len(rows)), expected[rows], target], axis=1)
        deviations = target - self._slope * expected[rows]
        whitened = self.inner.whiten(rows, deviations, design)
        self._slope = _SHARE * trusted_slope(*whitened.T)
        mean = self._slope * expected
        residuals = target - mean[rows]
        self.inner.fit(rows, residuals)
        self.mean, self.std = self.inner.mean + mean, self.inner.std
        self.incumbent, self.basis = float(target.min()), self.inner.basis
        share = residuals.var() / target.var() if target.var() > 0 else 1.0
        self.r2 = float(np.clip(1.0 - (1.0 - self.inner.r2) * share, 0.0, 1.0))

    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
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

    def fitted_estimator(
        self, rows: NDArray[np.intp], target: NDArray[np.float64]
    ) -> Any:
        """Return a new regressor, fitted to the targets of the rows alone."""
        return self.inner.fitted_estimator(rows, target)


def trusted_slope(
    ones: NDArray[np.float64],
    expected: NDArray[np.float64],
    target: NDArray[np.float64],
) -> float:
    """Return how far a prior is to be followed, by what was measured.

    Either the prior is worthless, or, as is somewhat more likely, the targets rise with
    the expected ones by a slope that is normal around one. The answer is the posterior
    mean of the slope, within zero and one, in this mixture, with the noise integrated
    out.

    Parameters
    ----------
    ones, expected, target : ndarray of shape (n_measured,)
        A constant, the expected targets and the targets, all whitened by the
        covariance of the deviations: what near configs have in common counts once.

    Returns
    -------
    float
        Between 0, the prior tells nothing, and 1.

    References
    ----------
    Mitchell and Beauchamp, "Bayesian variable selection in linear regression", 1988.
    """
    unit = ones / np.linalg.norm(ones)
    expected = expected - unit * (unit @ expected)
    target = target - unit * (unit @ target)
    n_free, total = len(target) - 1, float(target @ target)
    if n_free < 1:
        return _TRUST
    if not total > 0:  # what the prior tells apart is the same
        return 0.0
    # One slope is known as well as by this sum of squares of the expected targets.
    known = total / n_free / _SLOPE_VARIANCE
    squares, off = float(expected @ expected), target - expected
    slope = np.clip((expected @ target + known) / (squares + known), 0.0, 1.0)
    left = off @ off - (expected @ off) ** 2 / (squares + known)
    evidence = -0.5 * n_free * np.log(max(float(left), 1e-300) / total)
    evidence -= 0.5 * np.log1p(squares / known)
    return float(slope * expit(logit(_TRUST) + evidence))


def lean_policies(policies: Policies, costs: NDArray[np.float64] | None) -> Policies:
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
