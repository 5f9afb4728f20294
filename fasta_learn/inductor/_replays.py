"""Launches that are enqueued at once, and what is known of them."""

from collections import deque
from collections.abc import Callable
from typing import Any

# CUDA queues about a thousand operations and then blocks the host.
_MOST_QUEUED = 32
_MOST_KEPT = 25


class Replay:
    """Some launches that are enqueued at once.

    Parameters
    ----------
    enqueue : callable
        Enqueues them.
    n_launches : int
        How many there are.
    is_graph : bool
        Whether they are replayed from a graph; else the host launches each of them.

    Attributes
    ----------
    enqueue, n_launches, is_graph
        As given.
    durations : deque of float
        How long they took the last times, in ms.
    """

    def __init__(
        self, enqueue: Callable[[], Any], n_launches: int, is_graph: bool
    ) -> None:
        self.enqueue = enqueue
        self.n_launches = n_launches
        self.is_graph = is_graph
        self.durations: deque[float] = deque(maxlen=_MOST_KEPT)


class Pair:
    """Replays of a launch with what precedes it, and of what precedes it alone.

    Parameters
    ----------
    full : Replay
        With the launch.
    bare : Replay or None
        Without it; None where nothing precedes it.
    calls : tuple
        What is launched; kept, so that its id is not given to something else.

    Attributes
    ----------
    full, bare, calls
        As given.
    is_checked : bool
        Whether it is known that something was launched.
    """

    def __init__(
        self, full: Replay, bare: Replay | None, calls: tuple[Any, ...]
    ) -> None:
        self.full = full
        self.bare = bare
        self.calls = calls
        self.is_checked = False


def split_replays(positions: list[int], replays: list[Replay]) -> list[list[int]]:
    """Cut into parts that are short enough for the queue of the device.

    Parameters
    ----------
    positions : list of int
        Which of the replays, in order.
    replays : list of Replay
        All of them.

    Returns
    -------
    list of list of int
        The positions, in order.
    """
    parts: list[list[int]] = []
    room = 0
    for position in positions:
        replay = replays[position]
        cost = 1 if replay.is_graph else replay.n_launches
        if not parts or cost > room:
            parts.append([])
            room = _MOST_QUEUED
        parts[-1].append(position)
        room -= cost
    return parts
