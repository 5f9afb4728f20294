"""How good policies are on measured inputs, with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from fasta_learn.heuristics._codegen_parts import read_metrics
from fasta_learn.heuristics._evaluate_policies import as_policy, read_source
from fasta_learn.heuristics._inputs import choices_of, group_inputs
from fasta_learn.heuristics._log import HeuristicLog
from fasta_learn.heuristics._objectives import (
    PRODUCTION_MARGIN,
    durations_of,
    log_regret,
    production_costs,
)

_INTERVAL = 0.95
_N_BOOTSTRAP = 1000


def evaluate(
    inputs: pd.DataFrame | HeuristicLog,
    policies: Mapping[str, Any],
    *,
    by: str | None = None,
    margin: float = PRODUCTION_MARGIN,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Compare policies by the time that their decisions lose.

    Parameters
    ----------
    inputs : DataFrame or HeuristicLog
        What `group_inputs` returned, or some of its rows; inputs that were learned
        from flatter. Inputs without two measured choices, one of which ran, are left
        out.
    policies : mapping of str to object
        By name: an estimator with ``decide`` or ``predict``; a function of the frame
        that returns a choice, or None, for each row; a path or the source of a
        generated module; a heuristic of torch; the name of a choice, which is taken
        always; or ``"benchmark"``, which pads if that is measured to be faster by
        `margin`, as torch does without a heuristic.
    by : str, default=None
        A column of the inputs, such as ``"mat1_dtype"``: a row for each of its values.
    margin : float, default=1.1
        A choice that takes more than this times the best is slow.
    random_state : int, RandomState or None, default=0
        Of the bootstrap.

    Returns
    -------
    DataFrame of shape (n_policies, 12)
        Indexed by policy, and by the value of `by` if given:

        - ``n_inputs``, and ``coverage``, the share of them that is decided;
        - of the decided inputs: ``accuracy``, the share that takes the best choice;
          ``regret``, the geometric mean of the duration over that of the best;
          ``slow``, the share beyond `margin`; ``worst``, the largest ratio;
        - ``regret_low``, ``regret_high``, ``slow_low``, ``slow_high``: 95 % intervals
          by a bootstrap over the shape groups of the inputs;
        - ``total_regret``, the regret of all inputs if the undecided ones are
          benchmarked, and ``seconds``, the time of all inputs then, run once each.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import evaluate
    >>> inputs = pd.DataFrame({"median_orig": [2.0, 1.0], "median_pad": [1.0, 2.0]})
    >>> table = evaluate(inputs, {"pad": "pad"})
    >>> table.loc["pad", ["accuracy", "slow", "worst"]].tolist()
    [0.5, 0.5, 2.0]
    """
    if isinstance(inputs, HeuristicLog):
        inputs = group_inputs(inputs)
    inputs = _measured(inputs)
    rows: dict[Any, dict[str, float]] = {}
    for name, policy in policies.items():
        judged = _judge(inputs, as_policy(policy, inputs, margin), name, margin)
        if by is None:
            rows[name] = _summarise(judged, margin, random_state)
            continue
        for value, part in judged.groupby(inputs[by].astype(str).to_numpy()):
            rows[name, value] = _summarise(part, margin, random_state)
    index: Any
    if by is None:
        index = pd.Index(list(rows), name="policy")
    else:
        index = pd.MultiIndex.from_tuples(list(rows), names=["policy", by])
    return pd.DataFrame(list(rows.values()), index=index).astype({"n_inputs": int})


def _measured(inputs: pd.DataFrame) -> pd.DataFrame:
    durations = durations_of(inputs)
    measured = (~np.isnan(durations)).sum(axis=1) >= 2
    measured &= np.isfinite(durations).any(axis=1)
    if not measured.any():
        raise ValueError("no input has two measured choices of which one ran.")
    usable: pd.DataFrame = inputs[measured].reset_index(drop=True)
    return usable


def _judge(
    inputs: pd.DataFrame, decided: np.ndarray, name: str, margin: float
) -> pd.DataFrame:
    """Return for each input whether it is decided, what is lost, and its time."""
    choices = choices_of(inputs)
    unknown = {choice for choice in decided if choice is not None} - set(choices)
    if unknown:
        raise ValueError(
            f"policy {name!r} decided {sorted(map(str, unknown))}, but the inputs have "
            f"{', '.join(choices)}."
        )
    durations = durations_of(inputs)
    lost = log_regret(durations)
    sure = np.array([choice is not None for choice in decided])
    taken = np.array([choices.index(choice) if choice else 0 for choice in decided])
    fallback = production_costs(durations, margin=margin) if len(choices) == 2 else lost
    final = np.where(sure, taken, fallback.argmin(axis=1))
    row = np.arange(len(inputs))
    best = np.where(np.isfinite(durations), durations, np.inf).min(axis=1)
    group = inputs["group"].to_numpy() if "group" in inputs else row
    return pd.DataFrame(
        {
            "sure": sure,
            "lost": lost[row, taken],
            "total": lost[row, final],
            "ms": best * np.exp(lost[row, final]),
            "group": group,
        }
    )


def _summarise(
    judged: pd.DataFrame, margin: float, random_state: Any
) -> dict[str, float]:
    sure = judged["sure"].to_numpy()
    lost = judged["lost"].to_numpy()[sure]
    some = len(lost) > 0
    slow = lost > np.log(margin)
    summary = {
        "n_inputs": len(judged),
        "coverage": sure.mean(),
        "accuracy": (lost == 0).mean() if some else np.nan,
        "regret": np.exp(lost.mean()) if some else np.nan,
        "slow": slow.mean() if some else np.nan,
        "worst": np.exp(lost.max()) if some else np.nan,
    }
    group = judged["group"].to_numpy()[sure]
    low, high = _bootstrap(np.column_stack([lost, slow]), group, random_state)
    summary |= {"regret_low": np.exp(low[0]), "regret_high": np.exp(high[0])}
    summary |= {"slow_low": low[1], "slow_high": high[1]}
    summary["total_regret"] = np.exp(judged["total"].mean())
    summary["seconds"] = judged["ms"].sum() / 1e3
    return {name: float(value) for name, value in summary.items()}


def _bootstrap(
    values: np.ndarray, group: np.ndarray, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals of the means of columns, drawing whole groups."""
    if len(values) == 0:
        return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    random = check_random_state(random_state)
    codes = np.unique(group, return_inverse=True)[1]
    n_groups = codes.max() + 1
    sums = np.column_stack(
        [np.bincount(codes, weights=column, minlength=n_groups) for column in values.T]
        + [np.bincount(codes, minlength=n_groups)]
    )
    means = np.empty((_N_BOOTSTRAP, values.shape[1]))
    for draw in range(_N_BOOTSTRAP):
        total = sums[random.randint(n_groups, size=n_groups)].sum(axis=0)
        means[draw] = total[:-1] / total[-1]
    tail = (1 - _INTERVAL) / 2
    return np.quantile(means, tail, axis=0), np.quantile(means, 1 - tail, axis=0)


@dataclass(frozen=True)
class DriftReport:
    """Whether a heuristic still fits what is measured now.

    What `drift_check` returns.

    Attributes
    ----------
    drifted : bool
        Whether it should be trained again.
    reasons : tuple of str
        What speaks for that; empty if nothing does.
    regret : float
        Geometric mean of durations over the best on the new log.
    regret_low : float
        Lower end of its 95 % interval.
    regret_high : float
        Upper end.
    claimed_regret : float or None
        What the header of the artifact says.
    coverage : float
        Share of the new inputs that is decided.
    claimed_coverage : float or None
        What the header says.
    """

    drifted: bool
    reasons: tuple[str, ...]
    regret: float
    regret_low: float
    regret_high: float
    claimed_regret: float | None
    coverage: float
    claimed_coverage: float | None


def drift_check(
    artifact: Any,
    log: pd.DataFrame | HeuristicLog,
    *,
    claimed: Mapping[str, float] | None = None,
    random_state: Any = 0,
) -> DriftReport:
    """Compare what an artifact claims with a new log.

    Parameters
    ----------
    artifact : object
        A policy as for `evaluate`; a path or source tells by its header what it
        claims.
    log : HeuristicLog or DataFrame
        New measurements, or their inputs.
    claimed : mapping of str to float, default=None
        ``regret`` and ``coverage`` that are expected; None reads the header.
    random_state : int, RandomState or None, default=0
        Of the bootstrap.

    Returns
    -------
    DriftReport
        It has drifted if the interval of the regret lies above the claim, if it is
        worse than always taking one choice, or if it decides less than half as often
        as claimed.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import drift_check
    >>> inputs = pd.DataFrame({"median_orig": [2.0, 1.1], "median_pad": [1.0, 1.0]})
    >>> drift_check("orig", inputs, claimed={"regret": 1.01}).reasons
    ('the regret is 1.4832, above the claimed 1.0100', 'always taking pad is better')
    """
    inputs = group_inputs(log) if isinstance(log, HeuristicLog) else log
    if claimed is None:
        source = read_source(artifact)
        claimed = {} if source is None else read_metrics(source)
    policies = {"artifact": artifact, **{name: name for name in choices_of(inputs)}}
    table = evaluate(inputs, policies, random_state=random_state)
    rows: dict[Any, Any] = table.to_dict("index")
    now = rows["artifact"]
    regret, coverage = claimed.get("regret"), claimed.get("coverage")
    reasons = []
    if regret is not None and now["regret_low"] > regret:
        reasons.append(
            f"the regret is {now['regret']:.4f}, above the claimed {regret:.4f}"
        )
    for name in choices_of(inputs):
        if now["total_regret"] > rows[name]["regret"]:
            reasons.append(f"always taking {name} is better")
    if coverage is not None and now["coverage"] < coverage / 2:
        reasons.append(
            f"{now['coverage']:.0%} of the inputs are decided instead of {coverage:.0%}"
        )
    return DriftReport(
        drifted=bool(reasons),
        reasons=tuple(reasons),
        regret=now["regret"],
        regret_low=now["regret_low"],
        regret_high=now["regret_high"],
        claimed_regret=regret,
        coverage=now["coverage"],
        claimed_coverage=coverage,
    )
