"""Replays: many runs of several searches over recorded pools."""

from typing import Any

import pandas as pd

from fasta_learn.experiments._plan import plan_replay
from fasta_learn.experiments._runs import as_frame, run_chunks


def replay(
    pools: Any,
    searches: Any,
    budgets: Any = (0.1, 0.2, 0.35),
    n_seeds: int = 20,
    n_jobs: int | None = None,
    *,
    max_measurements: int | None = None,
    noise: float = 0.0,
    traces: bool = False,
) -> pd.DataFrame:
    """Run searches over recorded pools and note what they found.

    Each combination of pool, search, budget and seed is a run of its own. The seeds
    are 0 to ``n_seeds - 1``, the same for every search, so results can be compared
    in pairs, and any row can be run again by hand with ``random_state=seed``.

    Parameters
    ----------
    pools : Pool, str or path-like, an iterable of these, or a mapping to these
        Pools, names of pools that ship with the package, or pool files. The keys of
        a mapping name them.
    searches : mapping of str to search, or iterable of str
        An estimator such as `ActiveConfigSearch` is cloned and gets the parameters
        `budget` and `random_state`; it needs ``fit(configs, durations)`` and
        ``results_`` with a column "index". Any other search is a function
        ``(pool, n_budget, seed)`` that answers the indices it measured, in order.
        The names "default", "racing", "production", "reference" and "random" are
        known.
    budgets : float, int, "own", or iterable of these, default=(0.1, 0.2, 0.35)
        A share of the pool (rounded down, at least one config), a number of configs,
        or "own", the budget that an estimator has already.
    n_seeds : int, default=20
        Number of repetitions.
    n_jobs : int, default=None
        Number of parallel jobs, as in joblib. Any backend of
        ``joblib.parallel_config`` works, such as "loky", "threading" or "dask"; the
        results are the same to the bit.
    max_measurements : int, default=None
        Upper limit of a budget in configs; it does not bind the budget "own".
    noise : float, default=0.0
        How much measurements scatter: 0 not at all, 1 as much as the recorded
        percentiles tell (see `fasta_learn.oracles.RecordedOracle`). The pools need the
        columns duration_p20_ms and duration_p80_ms. A search is then judged by the
        recorded duration of the config that it names: `best_index_` of an estimator,
        for a function the one that seemed the fastest. An estimator whose ``fit``
        takes an `oracle` may measure a config again, which counts as a measurement;
        any other search sees one duration for each config. Runs of one seed meet the
        same noise.
    traces : bool, default=False
        Whether to add the column "trace", which `regret_curves` needs.

    Returns
    -------
    pandas.DataFrame
        One row a run, ordered by pool, search, budget and seed as given, with the
        columns pool, search, budget, seed, n_configs, n_measured, n_failed,
        best_duration (ms; inf if every measured config failed), regret
        (best_duration over the best of the pool, less 1), catch (bool: within 5 % of
        the best), n_near (configs of the pool within 5 % of its best), with noise
        selection_regret (best_duration over the fastest recorded duration among the
        measured configs, less 1: what naming the wrong one costs), and on demand
        trace (ndarray of shape (n_measured,): the regret after each measurement).

    Raises
    ------
    ValueError
        A pool, search or budget is not valid, a search measured what it may not, or
        there is noise and a pool has no percentiles.

    See Also
    --------
    summarize : Means over pools and seeds.
    compare : Difference of two searches.
    regret_curves : Regret after each measurement.

    Examples
    --------
    >>> from fasta_learn.configs import Pool
    >>> from fasta_learn.experiments import replay
    >>> configs = [{"M": 2**i, "N": 2**j} for i in range(4, 10) for j in range(4, 10)]
    >>> durations = [1 + 0.2 * (i - 7) ** 2 + 0.1 * (j - 6) ** 2
    ...              for i in range(4, 10) for j in range(4, 10)]
    >>> results = replay(Pool(configs, durations, name="toy"), ["default", "random"],
    ...                  budgets=[0.3], n_seeds=2)
    >>> results[["search", "seed", "n_measured", "catch"]]
        search  seed  n_measured  catch
    0  default     0          10   True
    1  default     1          10   True
    2   random     0          10   True
    3   random     1          10  False
    """
    plan = plan_replay(pools, searches, budgets, n_seeds, max_measurements, noise)
    return as_frame(plan, run_chunks(plan, n_jobs), traces=traces)
