"""Which inputs are to be measured, and in which order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from fasta_learn.heuristics._collect_shapes import (
    GemmInput,
    InputSampler,
    vary_layouts,
)
from fasta_learn.heuristics._collect_sources import known_inputs

_CHUNK = 256
# So many draws in a row without one that torch would ask a heuristic about.
_HOPELESS = 200 * _CHUNK

IsDecided = Callable[[Sequence[GemmInput]], list[bool]]


def plan_inputs(
    memory: int,
    n_samples: int,
    is_decided: IsDecided,
    *,
    shapes: Iterable[GemmInput] = (),
    n_known: int = 0,
    random_state: int = 0,
    max_operations: float | None = None,
) -> list[GemmInput]:
    """List the inputs of a collection: equal arguments give equal lists.

    Parameters
    ----------
    memory : int
        The memory of the device, in bytes.
    n_samples : int
        How many inputs.
    is_decided : callable
        Tells for which inputs torch would ask a heuristic.
    shapes : iterable of GemmInput, default=()
        Those that come first.
    n_known : int, default=0
        How many products of well-known models come next, at most, in random order.
    random_state : int, default=0
        Seed.
    max_operations : float, default=None
        Larger products are left out.

    Returns
    -------
    list of GemmInput
        `n_samples` different inputs; those of a smaller `n_samples` are among them.

    Raises
    ------
    ValueError
        So many can't be found.
    """
    # Streams of their own, so that a longer list of one keeps the others.
    samplers = [
        InputSampler(memory, random_state=seed, max_operations=max_operations)
        for seed in np.random.SeedSequence(random_state).generate_state(3).tolist()
    ]
    given = unique_inputs(vary_layouts(shapes, samplers[0]), is_decided)
    shuffled = np.random.default_rng(random_state).permutation(
        np.array(list(known_inputs()), object)
    )
    models = islice(
        unique_inputs(vary_layouts(shuffled, samplers[1]), is_decided), n_known
    )
    drawn = unique_inputs(iter(samplers[2].draw, None), is_decided)
    found: dict[tuple[str, ...], GemmInput] = {}
    for item in chain(given, models, drawn):
        if len(found) >= n_samples:
            break
        found.setdefault(item.key(), item)
    return list(found.values())


def unique_inputs(
    inputs: Iterator[GemmInput], is_decided: IsDecided
) -> Iterator[GemmInput]:
    """Leave out inputs that a log can't tell apart, and those nobody asks about.

    Parameters
    ----------
    inputs : iterator of GemmInput
        The inputs.
    is_decided : callable
        Tells for which inputs torch would ask a heuristic.

    Yields
    ------
    GemmInput
        The others.

    Raises
    ------
    ValueError
        None of very many is left.
    """
    seen, n_fruitless = set(), 0
    while chunk := list(islice(inputs, _CHUNK)):
        n_fruitless += len(chunk)
        for item, decided in zip(chunk, is_decided(chunk), strict=True):
            if decided and item.key() not in seen:
                seen.add(item.key())
                n_fruitless = 0
                yield item
        if n_fruitless >= _HOPELESS:
            raise ValueError(
                f"of the last {n_fruitless} inputs that were drawn, torch would ask "
                "a heuristic about none that is new; allow more memory or operations."
            )


class PlannedQueue:
    """Gives out a list of inputs, without those that are done.

    Parameters
    ----------
    plan : sequence of GemmInput
        The inputs.
    is_done : callable
        Tells of an input whether it is measured.

    Attributes
    ----------
    n_before : int
        How many are done.
    """

    def __init__(
        self, plan: Sequence[GemmInput], is_done: Callable[[GemmInput], bool]
    ) -> None:
        left = [item for item in plan if not is_done(item)]
        self.n_before = len(plan) - len(left)
        self._left = iter(left)

    def take(self) -> GemmInput | None:
        """Return the next input.

        Returns
        -------
        GemmInput or None
            None if there is no other.
        """
        return next(self._left, None)
