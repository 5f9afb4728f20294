"""Which configs will run, learned from those that failed."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fasta_learn._blas import one_blas_thread
from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.gaussian_process._pool import PoolGaussianProcess


class FeasibilityModel:
    """A Gaussian process over a pool that learns ones of success and zeros of failure.

    The probability that a config runs is that of its prediction to lie above one half
    (label regression: Rasmussen & Williams, section 6.5). It shares no hyperparameters
    with the model of the speed: memory runs out along other features than those that
    make a kernel fast.

    Parameters
    ----------
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.
    """

    # Ones and zeros are no normal variables: no prediction of them is surer than this.
    _LEAST_STD = 0.05

    def __init__(self, features: NDArray[np.float64]):
        self._features = features
        self._candidates: NDArray[np.intp] | None = None
        self._process: PoolGaussianProcess | None = None

    def probability(
        self,
        rows: NDArray[np.intp],
        durations: NDArray[np.float64],
        candidates: NDArray[np.intp] | None,
    ) -> NDArray[np.float64] | None:
        """Return how likely each config runs.

        Parameters
        ----------
        rows : ndarray of shape (n_measured,)
            Measured pool indices, which grow from call to call.
        durations : ndarray of shape (n_measured,)
            Their durations in ms, inf where a config failed.
        candidates : ndarray of shape (n_candidates,) or None
            Pool indices to predict, ascending, the measured ones among them; None
            means all.

        Returns
        -------
        ndarray of shape (n_pool,) or None
            1 for what is not predicted; None while no config failed.
        """
        ran = np.isfinite(durations)
        if ran.all():
            return None
        process = self._open(candidates)
        local = rows if candidates is None else np.searchsorted(candidates, rows)
        with one_blas_thread():
            process.fit(local, ran.astype(np.float64))
            mean, std = process.predict()
        predicted: NDArray[np.float64] = ndtr(
            (mean - 0.5) / np.maximum(std, self._LEAST_STD)
        )
        if candidates is None:
            return predicted
        probability = np.ones(len(self._features))
        probability[candidates] = predicted
        return probability

    def _open(self, candidates: NDArray[np.intp] | None) -> PoolGaussianProcess:
        """Return the process over these candidates, with what it has learned."""
        before = self._process
        # By value: a search that was loaded from a file may hold two equal arrays.
        if before is None or not np.array_equal(
            _or_empty(candidates), _or_empty(self._candidates)
        ):
            chosen = slice(None) if candidates is None else candidates
            process = AnovaGaussianProcess()._open_pool(self._features[chosen])
            if before is not None:
                process.packed = before.packed
            self._process, self._candidates = process, candidates
        assert self._process is not None
        return self._process


def _or_empty(candidates: NDArray[np.intp] | None) -> NDArray[np.intp]:
    return np.empty(0, dtype=np.intp) if candidates is None else candidates
