"""The parts of a search estimator that hold and show its state."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state

from fasta_learn._compat import validate_data
from fasta_learn.configs._tables import holds_configs, is_named_frame
from fasta_learn.search._budget import plan_budget
from fasta_learn.search._engine import SearchEngine
from fasta_learn.search._html import SearchHTMLMixin
from fasta_learn.search._ledger import check_results
from fasta_learn.search._parameters import find_init_configs, make_policies
from fasta_learn.search._prior import (
    choose_prior,
    lean_policies,
    predict_costs,
)
from fasta_learn.search._race_engine import RacingEngine, replicates_frame
from fasta_learn.search._report import summarize
from fasta_learn.search._space import PoolSpace, default_vectorizer


class BaseSearch(SearchHTMLMixin, MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Opens a pool, keeps the engine of the search, and shows what it knows."""

    _engine: SearchEngine

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict durations by the surrogate.

        Parameters
        ----------
        X : list of configs, frame, or array-like of shape (n_configs, n_features)
            Any configs, of the pool or not.

        Returns
        -------
        ndarray of shape (n_configs,)
            Predicted durations in ms.

        Raises
        ------
        NotFittedError
            No pool is open, none of its configs ran, or they have no features.
        ValueError
            X is not valid, or has other features than the pool.
        """
        self._check_open()
        features = self._engine.space.transform(self._check_pool(X, reset=False))
        predicted = np.asarray(self.best_estimator_.predict(features))
        return self._engine.to_durations(predicted)

    @property
    def best_estimator_(self) -> Any:
        """The surrogate, fitted to all measurements."""
        self._check_open()
        return self._engine.fitted_estimator()

    @property
    def vectorizer_(self) -> Any:
        """What makes features of configs, fitted on the pool."""
        self._check_open()
        return self._engine.space.vectorizer

    @property
    def results_(self) -> pd.DataFrame:
        """A row for each measurement, in order."""
        self._check_open()
        ledger = self._engine.ledger
        return pd.DataFrame(
            {
                "index": np.array(ledger.order, dtype=np.intp),
                "duration": np.array(ledger.durations, dtype=np.float64),
                "status": np.array(ledger.statuses, dtype=object),
                "round": np.array(ledger.rounds, dtype=np.intp),
                "predicted": np.array(ledger.predicted, dtype=np.float64),
                "reason": np.array(ledger.reasons, dtype=object),
            }
        )

    @property
    def replicates_(self) -> pd.DataFrame:
        """A row for each repeated measurement of a finalist, in order."""
        self._check_open()
        return replicates_frame(self._engine)

    @property
    def summary_(self) -> dict[str, Any]:
        """The record of the whole search."""
        self._check_open()
        return summarize(self._engine)

    def _make_engine(self, X: Any) -> SearchEngine:
        """Return a new search over a pool."""
        pool = self._check_pool(X, reset=True)
        vectorizer = (
            default_vectorizer() if self.vectorizer == "auto" else self.vectorizer
        )
        space = PoolSpace(pool, vectorizer)
        prior = choose_prior(self.prior, self.estimator, space)
        costs = predict_costs(prior, space)
        n_features = space.features.shape[1]
        plan = plan_budget(self.budget, self.n_initial, len(space), n_features)
        racing = self.racing
        if racing is not None:
            plan = racing.reserve(plan)
        engine = SearchEngine if racing is None else partial(RacingEngine, racing)
        return engine(
            space,
            plan,
            lean_policies(make_policies(self.get_params(deep=False)), costs),
            check_random_state(self.random_state),
            find_init_configs(space, self.init_configs, plan.n_budget),
        )

    def _engine_for(self, X: Any) -> SearchEngine:
        """Return the open search, or else a new one over a pool, not yet opened."""
        if hasattr(self, "_engine"):
            return self._engine
        self._validate_params()
        return self._make_engine(X)

    def _open(self, X: Any, engine: SearchEngine) -> None:
        """Make a search over a pool the current one, unless it is that already."""
        if engine is not getattr(self, "_engine", None):
            self._X, self._engine = X, engine
            self._sync()

    def _locate(
        self, X: Any, results: list[Any], engine: SearchEngine
    ) -> tuple[NDArray[np.intp], list[Any]]:
        """Pool indices of told configs, without what a whole pool repeats."""
        pool, space = self._check_pool(X, reset=False), engine.space
        if not space.holds(pool):
            return space.positions(pool), results
        indices = np.arange(len(space))
        if len(results) != len(space):
            return indices, results
        ledger = engine.ledger
        known = dict(zip(ledger.order, ledger.durations, strict=True))
        told = check_results(results)
        new = [i for i in indices if known.get(int(i)) != told[i].duration]
        return indices[new], [results[i] for i in new]

    def _check_pool(self, X: Any, *, reset: bool) -> Any:
        """Validate a matrix; configs and frames are read by the vectorizer."""
        if is_named_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if holds_configs(X):
            return X
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _check_open(self) -> None:
        if not hasattr(self, "_engine"):
            raise NotFittedError(
                f"This {type(self).__name__} has no pool yet; call fit(X, ...) or "
                "propose(X) first."
            )

    def _sync(self) -> None:
        """Bring the public attributes up to date."""
        engine = self._engine
        self.best_index_: int | None = None
        self.best_config_: Any = None
        self.best_duration_ = np.inf
        if engine.result is not None:
            self.best_index_, self.best_duration_ = engine.result
            self.best_config_ = engine.space.items[self.best_index_]
        self.n_measured_ = len(engine.ledger.order)
        self.n_budget_ = engine.n_total
        self.stop_reason_ = engine.stop_reason
        self.confidence_ = engine.confidence
        self.confidence_label_ = engine.confidence_label
        self.rounds_ = engine.rounds

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the pool as it was given, which only saves a comparison."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_X"}

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether a pool is open."""
        return hasattr(self, "_engine")

    def __sklearn_tags__(self) -> Tags:
        """Declare positive targets, of which only a few are looked at."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags
