"""Measures configs in the order of their proposal while later ones compile."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fasta_learn.oracles import Measurement

# So many are known before the rest of the first sample is waited for no longer.
_FEWEST_KNOWN = 4


def explore(
    search: Any,
    pool: Sequence[Any],
    *,
    window: int,
    announce: Callable[[list[int]], None],
    measure: Callable[[int], Measurement],
) -> None:
    """Search a pool, with as many proposals open as can be compiled at a time.

    What is proposed depends on what was measured, and never on how long a compile
    took: measurements are made in the order of the proposals.

    Parameters
    ----------
    search : ActiveConfigSearch
        Not yet opened.
    pool : sequence of configs
        The pool.
    window : int
        How many proposals are open at a time, at least 1.
    announce : callable
        Gets indices of the pool that will be measured, and does not wait.
    measure : callable
        Gets an index of the pool, and gives its measurement.
    """
    waiting: deque[int] = deque(search.propose(pool).tolist())
    announce(list(waiting))
    # Small batches know more, and large ones take less time to decide.
    chunk = max(1, window // 4)
    n_measured = 0
    while waiting:
        index = waiting.popleft()
        search.partial_fit([index], [measure(index)])
        n_measured += 1
        room = window - len(waiting)
        if waiting and (room < chunk or n_measured < _FEWEST_KNOWN):
            continue
        more = search.propose(n_configs=max(room, 1)).tolist()
        announce(more)
        waiting.extend(more)
