"""Chooses the inputs from which a heuristic would learn most."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesRegressor

from fasta_learn.heuristics._collect_journal import CollectionLog
from fasta_learn.heuristics._collect_queue import IsDecided, unique_inputs
from fasta_learn.heuristics._collect_shapes import (
    GemmInput,
    InputSampler,
    to_frame,
)
from fasta_learn.heuristics._features import PadFeatures

_N_TREES = 60
_BATCH = 50
_CANDIDATES = 10


def select_inputs(
    candidates: pd.DataFrame,
    measured: pd.DataFrame,
    log_ratios: np.ndarray,
    n_inputs: int,
    *,
    exploration: float = 0.1,
    random_state: int = 0,
) -> np.ndarray:
    """Choose the inputs whose measurement would most improve the decisions.

    A committee of trees learns the logarithm of how much longer the product takes
    than the padded one. Where its members disagree about the sign, the decision by
    their mean costs time: the mean loss to expect is the score of a candidate. It is
    large where a wrong choice is both probable and dear, and small where the choices
    are equally fast, however unsure their order. Candidates are drawn with
    probabilities in proportion to their scores, because the best few are alike.

    Parameters
    ----------
    candidates : DataFrame of shape (n_candidates, n_features)
        Raw features of the inputs to choose from.
    measured : DataFrame of shape (n_measured, n_features)
        Raw features of the inputs that are known, in the same columns.
    log_ratios : ndarray of shape (n_measured,)
        Natural logarithms of the duration of the product over that of the padded one.
    n_inputs : int
        How many to choose.
    exploration : float, default=0.1
        Share that is chosen uniformly, so that no region is left out because the
        committee agrees on something wrong.
    random_state : int, default=0
        Seed.

    Returns
    -------
    ndarray of shape (min(n_inputs, n_candidates),)
        Positions in `candidates`, all different.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import GemmInput, select_inputs
    >>> def frame(sizes):
    ...     items = [GemmInput(m, 1001, 1003, "float16") for m in sizes]
    ...     return pd.DataFrame([item.features() for item in items])
    >>> sizes = np.arange(801, 5000, 100).tolist()
    >>> log_ratios = np.where(np.array(sizes) < 3000, -0.1, 0.1)
    >>> candidates = [1055, 2955, 4055]
    >>> chosen = select_inputs(frame(candidates), frame(sizes), log_ratios, 1)
    >>> candidates[chosen[0]]
    2955
    """
    rng = np.random.default_rng(random_state)
    n_inputs = min(n_inputs, len(candidates))
    scores = expected_losses(candidates, measured, log_ratios, random_state)
    n_uniform = round(exploration * n_inputs)
    # The largest of exponential races: a draw without replacement by the scores.
    races = np.log(np.maximum(scores, 1e-12)) + rng.gumbel(size=len(scores))
    chosen = np.argsort(-races, kind="stable")[: n_inputs - n_uniform]
    others = np.setdiff1d(np.arange(len(candidates)), chosen)
    return np.concatenate([chosen, rng.choice(others, n_uniform, replace=False)])


def expected_losses(
    candidates: pd.DataFrame,
    measured: pd.DataFrame,
    log_ratios: np.ndarray,
    random_state: int = 0,
) -> np.ndarray:
    """Return by how much a decision is expected to lose, as a logarithm of time.

    Parameters
    ----------
    candidates : DataFrame of shape (n_candidates, n_features)
        Raw features of inputs.
    measured : DataFrame of shape (n_measured, n_features)
        Raw features of the inputs that are known.
    log_ratios : ndarray of shape (n_measured,)
        As in `select_inputs`.
    random_state : int, default=0
        Seed.

    Returns
    -------
    ndarray of shape (n_candidates,)
        At least 0.
    """
    features = PadFeatures().fit(pd.concat([measured, candidates], ignore_index=True))
    forest = ExtraTreesRegressor(
        _N_TREES, min_samples_leaf=2, bootstrap=True, random_state=random_state
    ).fit(_matrix(features, measured), log_ratios)
    matrix = _matrix(features, candidates)
    votes = np.array([tree.predict(matrix) for tree in forest.estimators_])
    mean, spread = votes.mean(axis=0), votes.std(axis=0, ddof=1)
    spread = np.maximum(spread, 1e-9)
    distance = np.abs(mean) / spread
    gain = spread * (norm.pdf(distance) - distance * norm.sf(distance))
    return np.asarray(np.maximum(gain, 0))


def _matrix(features: PadFeatures, frame: pd.DataFrame) -> Any:
    return np.asarray(features.transform(frame), dtype=np.float64)


class ActiveQueue:
    """Gives out a first part that is fixed, and then batches chosen by `select_inputs`.

    Parameters
    ----------
    first : sequence of GemmInput
        What is measured in any case.
    n_samples : int
        How many inputs the log is to have.
    log : CollectionLog
        What is known.
    is_decided : callable
        Tells for which inputs torch would ask a heuristic.
    memory : int
        The memory of the device, in bytes.
    n_repetitions : int
        How often each choice is to be measured.
    max_operations : float or None
        Larger products are left out.
    random_state : int
        Seed.

    Attributes
    ----------
    n_before : int
        How many inputs were known at the start, up to `n_samples`.
    """

    def __init__(
        self,
        first: Sequence[GemmInput],
        n_samples: int,
        log: CollectionLog,
        is_decided: IsDecided,
        *,
        memory: int,
        n_repetitions: int,
        max_operations: float | None,
        random_state: int,
    ) -> None:
        self._log = log
        self._is_decided = is_decided
        self._memory = memory
        self._n_repetitions = n_repetitions
        self._max_operations = max_operations
        self._random_state = random_state
        self._given: set[tuple[str, ...]] = set()
        self._left = deque(item for item in first if not self._is_known(item))
        self.n_before = min(log.n_inputs, n_samples)
        self._n_left = n_samples - self.n_before

    def take(self) -> GemmInput | None:
        """Return the next input.

        Returns
        -------
        GemmInput or None
            None if there is no other.
        """
        if not self._n_left:
            return None
        if not self._left:
            self._left.extend(self._choose(min(_BATCH, self._n_left)))
        self._n_left -= 1
        item = self._left.popleft()
        self._given.add(item.key())
        return item

    def _is_known(self, item: GemmInput) -> bool:
        done = self._log.is_done(item, self._n_repetitions)
        return done or item.key() in self._given

    def _choose(self, n_inputs: int) -> list[GemmInput]:
        # A seed of what is known, so that a resumed collection draws other candidates.
        seeds = np.random.SeedSequence([self._random_state, self._log.n_inputs])
        draw_seed, seed = seeds.generate_state(2).tolist()
        sampler = InputSampler(
            self._memory, random_state=draw_seed, max_operations=self._max_operations
        )
        drawn = unique_inputs(iter(sampler.draw, None), self._is_decided)
        unknown = (item for item in drawn if not self._is_known(item))
        candidates = list(islice(unknown, _CANDIDATES * n_inputs))
        measured, log_ratios = self._log.ratios()
        if len(log_ratios) < 2:
            return candidates[:n_inputs]
        frame = to_frame(candidates)
        chosen = select_inputs(frame, measured, log_ratios, n_inputs, random_state=seed)
        return [candidates[index] for index in chosen]
