"""The runs of a replay and the table of what they found."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.parallel import Parallel, delayed

from fasta_learn._blas import one_blas_thread
from fasta_learn.configs import Pool
from fasta_learn.experiments._one_run import Outcome, run_search
from fasta_learn.experiments._plan import ReplayPlan, resolve_budget

# What the runs of one pool and seed gave: by search, then budget.
Chunk = list[Outcome]


def run_chunks(
    plan: ReplayPlan, n_jobs: int | None, return_as: str = "list"
) -> Iterable[Chunk]:
    """Run a replay in tasks, one for each pool and seed.

    Parameters
    ----------
    plan : ReplayPlan
        What to run.
    n_jobs : int or None
        Number of parallel jobs.
    return_as : {"list", "generator"}, default="list"
        A generator answers as the tasks end, which not every backend can.

    Returns
    -------
    iterable of list of Outcome
        For each pool, and in it each seed, the outcome of each search, and in it each
        budget.
    """
    tasks = (
        delayed(_run_chunk)(
            name,
            pool,
            plan.searches,
            [resolve_budget(b, len(pool), plan.max_measurements) for b in plan.budgets],
            seed,
            plan.noise,
        )
        for name, pool in plan.pools.items()
        for seed in range(plan.n_seeds)
    )
    outcomes: Iterable[list[Outcome]] = Parallel(n_jobs=n_jobs, return_as=return_as)(
        tasks
    )
    return outcomes


def _run_chunk(
    pool_name: str,
    pool: Pool,
    searches: dict[str, Any],
    n_budgets: list[int | None],
    seed: int,
    noise: float,
) -> Chunk:
    chunk = []
    # The number of BLAS threads, which changes the last bits, differs by backend.
    with one_blas_thread():
        for search_name, search in searches.items():
            for n_budget in n_budgets:
                try:
                    chunk.append(run_search(search, pool, n_budget, seed, noise))
                except Exception as error:
                    allowed = "its own budget" if n_budget is None else n_budget
                    error.add_note(
                        f"The search was {search_name!r} on the pool {pool_name!r} "
                        f"with seed {seed} and budget {allowed}."
                    )
                    raise
    return chunk


def as_frame(
    plan: ReplayPlan, chunks: Iterable[Chunk], *, traces: bool
) -> pd.DataFrame:
    """Return the table of a replay.

    Parameters
    ----------
    plan : ReplayPlan
        What was run.
    chunks : iterable of list of Outcome
        What `run_chunks` answered.
    traces : bool
        Whether to add the regrets so far.

    Returns
    -------
    pandas.DataFrame
        One row a run, ordered by pool, search, budget and seed.
    """
    columns = list(_COLUMNS)
    columns += ["selection_regret"] if plan.noise else []
    columns += ["trace"] if traces else []
    answers = iter(chunks)
    rows = []
    for name, pool in plan.pools.items():
        by_seed = [next(answers) for _ in range(plan.n_seeds)]
        of_pool = {
            "n_configs": len(pool),
            "n_near": int(np.sum(pool.durations <= 1.05 * pool.best_duration)),
        }
        runs = ((search, budget) for search in plan.searches for budget in plan.budgets)
        for run, (search, budget) in enumerate(runs):
            for seed, chunk in enumerate(by_seed):
                key = {"pool": name, "search": search, "budget": budget, "seed": seed}
                rows.append(key | of_pool | _score(pool, chunk[run], columns))
    frame = pd.DataFrame(rows, columns=columns)
    if len({type(budget) for budget in plan.budgets}) > 1:
        # Otherwise pandas would turn numbers of configs into floats, as shares are.
        frame["budget"] = pd.Series([row["budget"] for row in rows], dtype=object)
    return frame


_COLUMNS = [
    "pool",
    "search",
    "budget",
    "seed",
    "n_configs",
    "n_measured",
    "n_failed",
    "best_duration",
    "regret",
    "catch",
    "n_near",
]


def _score(pool: Pool, outcome: Outcome, columns: list[str]) -> dict[str, Any]:
    durations = pool.durations[outcome.order]
    named = pool.durations[outcome.named]
    best = float(named[-1])
    score: dict[str, Any] = {
        "n_measured": len(named),
        "n_failed": int(np.sum(durations == math.inf)),
        "best_duration": best,
        "regret": pool.regret(best),
        "catch": pool.is_catch(best),
    }
    if "selection_regret" in columns:
        fastest = float(durations.min())
        score["selection_regret"] = best / fastest - 1.0 if fastest < math.inf else 0.0
    if "trace" in columns:
        score["trace"] = named / pool.best_duration - 1.0
    return score
