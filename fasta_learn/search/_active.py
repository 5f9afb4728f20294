"""The budgeted search as an estimator."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import CallbackSupportMixin, with_callbacks

from fasta_learn._compat import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
)
from fasta_learn.search._base import BaseSearch
from fasta_learn.search._parameters import (
    ACQUISITIONS,
    DESIGNS,
    as_indices,
    find_open_proposals,
)
from fasta_learn.search._racing import Racing
from fasta_learn.search._reporter import make_reporter
from fasta_learn.search._schedule import Schedule
from fasta_learn.search._source import Source, make_source
from fasta_learn.search._target import TRANSFORMS


class ActiveConfigSearch(CallbackSupportMixin, BaseSearch):
    """Find a fast config of a pool by measuring few of its configs.

    The search measures a small blind sample, then again and again fits a surrogate
    and measures what promises most, until its budget is used up. None of its
    decisions depends on the unit of the durations.

    Parameters
    ----------
    estimator : regressor, default=None
        The surrogate: an unfitted regressor that learns `target_transform` of the
        durations from features in the unit range. By default an
        `AnovaGaussianProcess`. `ModelSelector` is the other one made for the task.
    budget : float, int or callable, default=0.2
        Share of the pool to measure in all (above 0, up to 1.0), or a number of
        configs, failed ones included. Or a function of ``(n_pool, n_features)``
        that answers a `BudgetPlan`.
    n_initial : "auto", float or int, default="auto"
        Share of the pool, or number of configs, of the blind sample; "auto" takes
        D + 3 for D features, at most 60 % of the budget.
    batch_size : "auto", int or callable, default="auto"
        How many configs to propose at a time after that. "auto" proposes one, and
        from 64 measured configs on one for each 32 of them. Or a function of the
        `SearchState`.
    initial_design : {"centred", "stratified", "random"} or callable, \
            default="centred"
        How to choose the blind sample: balanced over the values of each feature
        with a preference for the middle of the pool, as the dynamic filter does, or
        at random. Or a function of ``(state, n_configs)`` that answers pool indices.
    acquisition : {"auto", "expected_improvement", "greedy"} or callable, \
            default="auto"
        How to choose by the surrogate. "auto" takes the expected improvement where
        the surrogate knows its uncertainty, else the best predictions. Or a function
        of ``(state, n_configs)`` that answers pool indices.
    stopping : callable, default=None
        Function of ``(state, rounds)``, asked after each round, that answers why to
        stop early, or None to go on. See `CertaintyStop` and `Convergence`.
    prior : "auto", PoolPrior, object with ``predict`` or None, default="auto"
        What recorded pools tell; its ``predict(configs)`` answers the share of the
        best speed that each config of the pool may lose. "centred" begins with it.
        "auto" is `load_default_prior` for 64 or more Triton configs, else None.
    init_configs : list of configs or of pool indices, default=None
        Configs known to be good; they are measured first, as part of the budget.
    racing : Racing, default=None
        Measures near-tied finalists again, as part of the budget, before the best
        config is named. By default, none is measured twice.
    time_budget : float, default=None
        Seconds after which no further measurement is started.
    vectorizer : "auto" or transformer, default="auto"
        Makes features of configs; fitted on the whole pool. "auto" is
        ``ConfigVectorizer(log2="auto", boolean=True, categorical=True)``.
    target_transform : {"auto", "speed", "log", "identity"}, default="auto"
        What the surrogate learns of the configs that ran: the share of the best
        speed that a config loses, the logarithm of its duration, or the duration.
        "auto" is "speed" for the default estimator and "log" for others.
    random_state : int, RandomState instance or None, default=None
        Seed of every random choice; with an int the search is repeatable.
    verbose : int, default=0
        With 1, `fit` writes a line to the standard error for each round; a notebook
        shows the last of them.

    Attributes
    ----------
    best_index_ : int or None
        Pool index of the fastest measured config; None while none ran.
    best_config_ : config or None
        The config itself; of a frame the row as a dict, of a matrix the row.
    best_duration_ : float
        Its duration in ms; inf while none ran.
    n_measured_ : int
        Number of measured configs, failed ones included.
    n_budget_ : int
        Number of configs that may be measured in all.
    stop_reason_ : str or None
        "budget", "all" (nothing of the pool is left), "time", "callback", or what
        `stopping` answered ("confident", "converged"); None while the search goes on.
    confidence_ : float or None
        Estimated probability that the best measured config is within 5 % of the best
        of the pool; None while none ran.
    confidence_label_ : {"high", "med", "low"} or None
        Trust in the result by the rule of the dynamic filter.
    rounds_ : list of dict
        A record for each round: round, basis (the model), r2, margin (best prediction
        of an unmeasured config over the best duration), n_near_optimal (measured
        within 5 % of the best), n_measured, best_duration, and confidence and
        confidence_label as they were then.
    results_ : pandas.DataFrame
        A row for each measurement, in order: index, duration (ms), status, round,
        predicted (ms, NaN for the blind sample), reason.
    replicates_ : pandas.DataFrame
        A row for each repeated measurement of `racing`: index, duration (ms), status,
        round (of the race), reason.
    summary_ : dict
        The record of the whole search: n_configs, n_features, budget_class, path
        ("coverage" if configs were drawn at random for want of a surrogate, else
        "model"), n_measured, savings, n_rounds, best_duration (ms), stop_reason,
        confidence, confidence_label and overhead_seconds (time spent on decisions).
    best_estimator_ : regressor
        The surrogate, fitted to all measurements.
    vectorizer_ : transformer
        Makes its features of configs, before they are scaled; fitted on the pool.
    n_features_in_ : int
        Number of columns of the pool, if it was a matrix or a frame.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of its columns, if it was a frame with text names.

    Raises
    ------
    AllConfigsFailedError
        In `fit`, if every measured config failed.

    See Also
    --------
    dynamic_filter_search : The reference algorithm.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> configs = [{"BLOCK_M": 2**i, "BLOCK_N": 2**j}
    ...            for i in range(4, 10) for j in range(4, 10)]
    >>> durations = [1 + 0.2 * (i - 7) ** 2 + 0.1 * (j - 6) ** 2
    ...              for i in range(4, 10) for j in range(4, 10)]
    >>> search = ActiveConfigSearch(budget=0.3, random_state=0)
    >>> search.fit(configs, durations).best_config_
    {'BLOCK_M': 128, 'BLOCK_N': 64}
    >>> search.n_measured_
    10

    The same with the measurements in the caller's hands:

    >>> search = ActiveConfigSearch(budget=0.3, random_state=0)
    >>> while len(batch := search.propose(configs)):
    ...     _ = search.partial_fit(batch, [durations[i] for i in batch])
    >>> search.best_config_
    {'BLOCK_M': 128, 'BLOCK_N': 64}
    """

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "budget": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            callable,
        ],
        "n_initial": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
        ],
        "batch_size": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            callable,
        ],
        "initial_design": [StrOptions(set(DESIGNS)), callable],
        "acquisition": [StrOptions(set(ACQUISITIONS)), callable],
        "stopping": [callable, None],
        "prior": [StrOptions({"auto"}), HasMethods(["predict"]), None],
        "init_configs": ["array-like", None],
        "racing": [Racing, None],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "vectorizer": [StrOptions({"auto"}), HasMethods(["fit", "transform"])],
        "target_transform": [StrOptions({"auto", *TRANSFORMS})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        budget: Any = 0.2,
        n_initial: Any = "auto",
        batch_size: Any = "auto",
        initial_design: Any = "centred",
        acquisition: Any = "auto",
        stopping: Any = None,
        prior: Any = "auto",
        init_configs: Any = None,
        racing: Racing | None = None,
        time_budget: float | None = None,
        vectorizer: Any = "auto",
        target_transform: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.budget = budget
        self.n_initial = n_initial
        self.batch_size = batch_size
        self.initial_design = initial_design
        self.acquisition = acquisition
        self.stopping = stopping
        self.prior = prior
        self.init_configs = init_configs
        self.racing = racing
        self.time_budget = time_budget
        self.vectorizer = vectorizer
        self.target_transform = target_transform
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, oracle: Any = None) -> Self:
        """Search a pool from the start.

        Parameters
        ----------
        X : list of configs, frame, or array-like of shape (n_pool, n_features)
            The pool.
        y : array-like of shape (n_pool,) or oracle, default=None
            Recorded durations of all configs in ms, inf where a config fails, of
            which only those that the search asks for are used; or an oracle.
        oracle : oracle, default=None
            What measures configs, a `BaseOracle`; instead of `y`.

        Returns
        -------
        Self
            The search with its result.

        Raises
        ------
        AllConfigsFailedError
            Every measured config failed.
        ValueError
            Durations and oracle are both given or both missing, a value is not
            valid, the pool holds a config twice, or the oracle answered too few or
            too many measurements.
        """
        engine = self._make_engine(X)
        source = make_source(engine.space, y, oracle)
        self._open(X, engine)
        self._run(source, X)
        self._engine.ledger.raise_if_all_failed()
        return self

    def _run(self, source: Source, X: Any) -> None:
        engine = self._engine
        limit = max(engine.n_total, engine.plan.n_coverage)
        root = self._init_callback_context(max_subtasks=limit)
        report = make_reporter(self.verbose, engine.n_total)

        def announce() -> None:
            task = root.subcontext(task_name="measure")
            task.call_on_fit_task_begin(estimator=self)
            if task.call_on_fit_task_end(estimator=self):
                engine.stop("callback")

        root.call_on_fit_task_begin(estimator=self, X=X)
        try:
            for ended in Schedule(engine, source, self.propose).run(announce):
                self._sync()
                report(ended)
        finally:
            self._sync()
        root.call_on_fit_task_end(estimator=self, X=X)

    def propose(
        self, X: Any = None, *, n_configs: int | None = None
    ) -> NDArray[np.intp]:
        """Choose the configs to measure next.

        Parameters
        ----------
        X : list of configs, frame or array-like, default=None
            The pool. The first call opens it; a later one may repeat it.
        n_configs : int, default=None
            How many, instead of `batch_size`; fewer come if the budget ends.

        Returns
        -------
        ndarray of shape (n_configs,)
            Pool indices. Proposals stay open until `partial_fit` or `discard`; a
            call in between proposes others. Empty when the search is over (see
            `stop_reason_`), or when the rest of the budget is open.

        Raises
        ------
        NotFittedError
            No pool is open and none is given.
        ValueError
            Another pool is open, `n_configs` is not a positive int, or a policy
            answered what can't be proposed.
        """
        is_count = isinstance(n_configs, Integral) and n_configs >= 1
        if n_configs is not None and not is_count:
            raise ValueError(f"n_configs must be an int of at least 1: {n_configs!r}.")
        if X is None:
            self._check_open()
        elif not hasattr(self, "_engine"):
            self._open(X, self._engine_for(X))
        elif X is not getattr(self, "_X", None) and not self._engine.space.holds(X):
            raise ValueError(
                "X is another pool than the one that is open; call propose() without "
                "X, or use a new estimator (sklearn.base.clone) for another pool."
            )
        chosen = self._engine.propose(n_configs)
        self._sync()
        return chosen

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Tell the search what was measured.

        Parameters
        ----------
        X : array-like of int of shape (n_configs,), or configs
            Pool indices, or configs or rows of the pool. If no pool is open, the
            configs or rows become the pool. The whole pool may be told at once, with
            configs that were measured already.
        y : array-like of shape (n_configs,)
            Durations in ms, inf for a config that failed; or `Measurement` objects.

        Returns
        -------
        Self
            The search, with the attributes brought up to date.

        Raises
        ------
        NotFittedError
            X holds indices and no pool is open.
        IndexError
            An index is not in the pool.
        ValueError
            A row is not in the pool, a config was measured already or occurs
            twice, the lengths differ, or a duration is NaN or negative. The search
            is as before.
        """
        results = list(y) if isinstance(y, Sequence) else np.asarray(y).tolist()
        indices = as_indices(X)
        if indices is not None:
            self._check_open()
        engine = self._engine_for(X)
        if indices is None:
            indices, results = self._locate(X, results, engine)
        measurements = engine.check_batch(indices, results)
        self._open(X, engine)
        if len(indices):
            engine.record(indices, measurements)
            self._sync()
        return self

    def discard(self, indices: ArrayLike) -> Self:
        """Release proposals that will not be measured.

        They cost no budget and are not proposed again.

        Parameters
        ----------
        indices : array-like of int of shape (n_configs,)
            Pool indices that `propose` answered.

        Returns
        -------
        Self
            The search.

        Raises
        ------
        NotFittedError
            No pool is open.
        ValueError
            An index is no open proposal.
        """
        self._check_open()
        self._engine.discard(find_open_proposals(self._engine, indices))
        self._sync()
        return self
