"""Surrogates over a fixed pool: one face for Gaussian process, bases and others."""

from abc import ABC, abstractmethod
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fasta_learn._blas import one_blas_thread
from fasta_learn.gaussian_process import AnovaGaussianProcess
from fasta_learn.model_selection import ModelSelector


class PoolSurrogate(ABC):
    """Predicts every config of a pool from those that were measured.

    Parameters
    ----------
    estimator : regressor
        An unfitted regressor; a clone of it learns.
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.

    Attributes
    ----------
    mean : ndarray of shape (n_pool,)
        Predicted targets.
    std : ndarray of shape (n_pool,) or None
        Their standard deviations, if the regressor knows them.
    incumbent : float
        Best target that was measured.
    r2 : float
        How well the model explains the measured targets, in [0, 1].
    basis : str
        Name of the model behind the predictions.
    candidates : ndarray of shape (n_candidates,) or None
        Pool indices that are really predicted, ascending; None means all of them.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64] | None = None
    candidates: NDArray[np.intp] | None = None
    r2: float = 0.0

    def __init__(self, estimator: Any, features: NDArray[np.float64]):
        self.estimator = clone(estimator)
        self.features = features
        self.basis = type(estimator).__name__

    def fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        """Learn the targets of the measured rows, which grow from call to call."""
        with one_blas_thread():
            self.incumbent = float(target.min())
            self._fit(rows, target)

    @abstractmethod
    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None: ...

    def whiten(
        self,
        rows: NDArray[np.intp],
        target: NDArray[np.float64],
        values: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return columns of `values`, decorrelated by what is learned of the target.

        A model that knows no covariance between configs leaves them as they are.
        """
        return values

    def imagine(self, row: int) -> NDArray[np.float64]:
        """Return `std`, had this row come out as predicted; if there is one."""
        if self.std is None:
            raise ValueError(f"{self.basis} has no standard deviations.")
        return self.std

    def forget(self) -> None:  # noqa: B027
        """Undo every `imagine`."""

    def begin_like(self, other: "PoolSurrogate") -> None:  # noqa: B027
        """Begin with what the same estimator has learned over another pool."""

    def fitted_estimator(
        self, rows: NDArray[np.intp], target: NDArray[np.float64]
    ) -> Any:
        """Return a new regressor, fitted to the targets of the rows."""
        return clone(self.estimator).fit(self.features[rows], target)


class GaussianProcessSurrogate(PoolSurrogate):
    """The default: its posterior grows with the measurements."""

    def __init__(self, estimator: AnovaGaussianProcess, features: NDArray[np.float64]):
        super().__init__(estimator, features)
        self._process = self.estimator._open_pool(features)

    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        self._process.fit(rows, target)
        self.mean, self.std = self._process.predict()
        self.r2 = _r2(*self._process.leave_one_out())

    def whiten(
        self,
        rows: NDArray[np.intp],
        target: NDArray[np.float64],
        values: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return columns of `values`, decorrelated by what is learned of the target."""
        with one_blas_thread():
            self._process.fit(rows, target)
            white: NDArray[np.float64] = self._process.whiten(rows, values)
        return white

    def imagine(self, row: int) -> NDArray[np.float64]:
        """Return `std`, had this row come out as predicted."""
        with one_blas_thread():
            std: NDArray[np.float64] = self._process.imagine(row)
        return std

    def forget(self) -> None:
        """Undo every `imagine`."""
        self._process.forget()

    def begin_like(self, other: PoolSurrogate) -> None:
        """Begin with the hyperparameters of another one."""
        assert isinstance(other, GaussianProcessSurrogate)
        self._process.packed = other._process.packed


class SelectorSurrogate(PoolSurrogate):
    """Bases that compete anew with every fit; the pool is expanded once."""

    def __init__(self, estimator: ModelSelector, features: NDArray[np.float64]):
        super().__init__(estimator, features)
        self._expanded = self.estimator._expand_pool(features)

    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        self.estimator._fit_rows(self._expanded, rows, target)
        self.mean = self.estimator._predict_pool(self._expanded)
        self.r2, self.basis = self.estimator.r2_, self.estimator.best_basis_


class RegressorSurrogate(PoolSurrogate):
    """Any other scikit-learn regressor, fitted anew each time."""

    def _fit(self, rows: NDArray[np.intp], target: NDArray[np.float64]) -> None:
        self.estimator = clone(self.estimator).fit(self.features[rows], target)
        if "return_std" in signature(self.estimator.predict).parameters:
            self.mean, self.std = self.estimator.predict(self.features, return_std=True)
        else:
            self.mean = np.asarray(self.estimator.predict(self.features), np.float64)
        self.r2 = _r2(target, self.mean[rows])


def make_surrogate(estimator: Any, features: NDArray[np.float64]) -> PoolSurrogate:
    """Return the surrogate that fits a regressor to this pool.

    Parameters
    ----------
    estimator : regressor
        Unfitted.
    features : ndarray of shape (n_pool, n_features)
        Features of the pool in the unit range.

    Returns
    -------
    PoolSurrogate
        Not yet fitted.
    """
    # Exactly these classes: a subclass may fit or predict otherwise.
    if type(estimator) is AnovaGaussianProcess:
        return GaussianProcessSurrogate(estimator, features)
    if type(estimator) is ModelSelector:
        return SelectorSurrogate(estimator, features)
    return RegressorSurrogate(estimator, features)


def _r2(target: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    spread = float(np.sum((target - target.mean()) ** 2))
    if spread == 0:
        return 0.0
    return float(np.clip(1 - np.sum((target - predicted) ** 2) / spread, 0, 1))
