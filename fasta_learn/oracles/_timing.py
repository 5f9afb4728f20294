"""How one config is timed: how often, reduced to which number, stopped when."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

# A median of fewer launches can be moved by a single one that was disturbed.
_FEWEST_LAUNCHES = 3
# One launch that takes longer than this is all that is paid for a config.
_LONG_LAUNCH_MS = 1000.0


class Clock(Protocol):
    """What times launches on a device."""

    def time_batch(
        self,
        launch: Callable[[], None],
        n_launches: int,
        prepare: Callable[[], None] | None,
    ) -> NDArray[np.float64]:
        """Time launches one by one, each with a cold L2 cache.

        Parameters
        ----------
        launch : callable
            Enqueues the kernel once.
        n_launches : int
            How often it is to be timed.
        prepare : callable or None
            Called before each launch; what it enqueues is not timed.

        Returns
        -------
        ndarray of shape (n_launches,)
            Duration of each launch on the device, in ms.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class TimingPlan:
    """How precisely, and for how long at most, one config is timed.

    Parameters
    ----------
    relative_error : float, default=0.005
        Wanted standard error of the median, as a share of the median.
    n_warmup : int, default=1
        Launches before the timed ones. They tell how long a launch takes.
    min_launches : int, default=7
        Launches that are timed in any case, unless they would take longer than
        `max_ms`; even then 3 are, or one if it takes longer than a second.
    max_launches : int, default=100
        Most launches that are timed.
    max_ms : float, default=30.0
        Most time that the timed launches may take on the device, in ms. Warm-up and
        the flushes of the cache are not counted.
    cutoff : float or None, default=1.5
        A config is dropped after its first launches if the fastest of them took longer
        than this multiple of the best duration so far. None drops no config.

    Attributes
    ----------
    relative_error, n_warmup, min_launches, max_launches, max_ms, cutoff
        As given.

    Raises
    ------
    ValueError
        A value is no number or out of its range.

    Examples
    --------
    >>> from fasta_learn.oracles._timing import TimingPlan
    >>> TimingPlan(relative_error=0.002, max_ms=100.0).min_launches
    7
    """

    relative_error: float = 0.005
    n_warmup: int = 1
    min_launches: int = 7
    max_launches: int = 100
    max_ms: float = 30.0
    cutoff: float | None = 1.5

    def __post_init__(self) -> None:
        _check_above("relative_error", self.relative_error, 0)
        _check_count("n_warmup", self.n_warmup, 0)
        _check_count("min_launches", self.min_launches, 1)
        _check_count("max_launches", self.max_launches, 1)
        _check_above("max_ms", self.max_ms, 0)
        if self.cutoff is not None:
            _check_above("cutoff", self.cutoff, 1)
        if self.max_launches < self.min_launches:
            raise ValueError(
                f"max_launches ({self.max_launches}) is less than min_launches "
                f"({self.min_launches}); raise it or lower min_launches."
            )


@dataclass(frozen=True, eq=False)
class Timing:
    """The timed launches of one config.

    Parameters
    ----------
    durations : array-like of shape (n_launches,)
        Duration of each launch, in ms; at least one.
    cut_off : bool, default=False
        Whether the config was dropped because it could not win.

    Attributes
    ----------
    durations : ndarray of shape (n_launches,)
        As given, read-only.
    cut_off : bool
        As given.

    Raises
    ------
    ValueError
        There is no duration, or one is negative or not finite.

    Examples
    --------
    >>> from fasta_learn.oracles._timing import Timing
    >>> timing = Timing([0.51, 0.50, 0.52, 0.50, 4.0])
    >>> timing.median
    0.51
    """

    durations: NDArray[np.float64]
    cut_off: bool = False

    def __post_init__(self) -> None:
        durations = np.array(self.durations, dtype=np.float64)
        if durations.ndim != 1 or not len(durations):
            raise ValueError(
                "durations must be one-dimensional and not empty, got the shape "
                f"{durations.shape}."
            )
        wrong = np.flatnonzero(~np.isfinite(durations) | (durations < 0))
        if len(wrong):
            raise ValueError(
                f"durations[{wrong[0]}] is {durations[wrong[0]]}; the clock must give "
                "finite times that are not negative."
            )
        durations.flags.writeable = False
        object.__setattr__(self, "durations", durations)

    @property
    def n_launches(self) -> int:
        """Number of timed launches."""
        return len(self.durations)

    @property
    def median(self) -> float:
        """Median, in ms: the duration of the config."""
        return float(np.median(self.durations))

    @property
    def p20(self) -> float:
        """20th percentile, in ms."""
        return float(np.quantile(self.durations, 0.2))

    @property
    def p80(self) -> float:
        """80th percentile, in ms."""
        return float(np.quantile(self.durations, 0.8))

    @property
    def standard_error(self) -> float:
        """Standard error of the median, in ms; inf for a single launch.

        The estimator of Maritz and Jarrett [1]_: the spread of the sorted durations,
        weighted by how probable each is to be the median of a sample of the same size
        drawn from them. For odd numbers of launches it equals the bootstrap's standard
        error with infinitely many resamples. Launches that were disturbed weigh the
        less, the more launches there are.

        References
        ----------
        .. [1] J. S. Maritz and R. G. Jarrett, "A note on estimating the variance of the
           sample median", Journal of the American Statistical Association 73(361),
           194-196, 1978.
        """
        n = self.n_launches
        if n == 1:
            return math.inf
        shape = (n + 1) / 2
        weights = np.diff(betainc(shape, shape, np.arange(n + 1) / n))
        durations = np.sort(self.durations)
        mean = weights @ durations
        return float(np.sqrt(weights @ (durations - mean) ** 2))


def time_launches(
    launch: Callable[[], None],
    clock: Clock,
    plan: TimingPlan,
    *,
    best: float | None = None,
    prepare: Callable[[], None] | None = None,
) -> Timing:
    """Time a config: warm up, then launch until its median is precise enough.

    Parameters
    ----------
    launch : callable
        Enqueues the kernel once.
    clock : Clock
        Times the launches.
    plan : TimingPlan
        Wanted precision and caps.
    best : float or None, default=None
        Best duration so far, in ms, for the cut-off; None or inf if there is none.
    prepare : callable or None, default=None
        Called before each launch, untimed.

    Returns
    -------
    Timing
        Without the warm-up, except where a launch takes longer than ``plan.max_ms``:
        being cold does not matter there.

    Raises
    ------
    ValueError
        `best` is NaN or not positive, or the clock's answer is not as many finite
        durations as launches.
    """
    if best is not None and not best > 0:
        raise ValueError(f"best must be a positive duration in ms, got {best!r}.")
    limit = math.inf if best is None or plan.cutoff is None else plan.cutoff * best

    def time_batch(n_launches: int) -> NDArray[np.float64]:
        durations = Timing(clock.time_batch(launch, n_launches, prepare)).durations
        if len(durations) != n_launches:
            raise ValueError(
                f"the clock gave {len(durations)} durations of {n_launches} launches."
            )
        return durations

    warmup = _warm_up(time_batch, plan)
    timed = np.empty(0)
    while True:
        durations = _countable(warmup, timed, plan)
        if _is_hopeless(durations, limit):
            return Timing(durations, cut_off=True)
        n_more = _n_more(durations, warmup, plan)
        if not n_more:
            return Timing(durations)
        timed = np.concatenate([timed, time_batch(n_more)])


def _warm_up(
    time_batch: Callable[[int], NDArray[np.float64]], plan: TimingPlan
) -> NDArray[np.float64]:
    """Launch once, and the rest only if that takes no longer than a config may."""
    if not plan.n_warmup:
        return np.empty(0)
    first = time_batch(1)
    n_more = min(plan.n_warmup - 1, int(plan.max_ms / max(first[0], 1e-6)))
    return np.concatenate([first, time_batch(n_more)]) if n_more else first


def _countable(
    warmup: NDArray[np.float64], timed: NDArray[np.float64], plan: TimingPlan
) -> NDArray[np.float64]:
    """Give the timed launches, and the warm-up where it was as good as any launch."""
    if not len(warmup):
        return timed
    if not len(timed):
        return warmup if warmup.min() > _LONG_LAUNCH_MS else timed
    both = np.concatenate([warmup, timed])
    is_room = len(both) <= plan.max_launches
    return both if is_room and both.min() > plan.max_ms else timed


def _is_hopeless(durations: NDArray[np.float64], limit: float) -> bool:
    """Whether not one launch was within the limit, and there were enough of them."""
    if not len(durations) or durations.min() <= limit:
        return False
    return len(durations) > 1 or durations[0] > _LONG_LAUNCH_MS


def _n_more(
    durations: NDArray[np.float64], warmup: NDArray[np.float64], plan: TimingPlan
) -> int:
    """Launches of the next batch; 0 if the median is precise enough or a cap is met."""
    n = len(durations)
    known = durations if n else warmup
    if not len(known):
        return 1  # nothing is known: one launch tells how many can be afforded
    typical = max(float(np.median(known)), 1e-6)
    if n and typical > _LONG_LAUNCH_MS:
        return 0
    few = min(_FEWEST_LAUNCHES, plan.min_launches)
    if typical > plan.max_ms:  # one by one, so that the cut-off can save some
        return 1 if n < few else 0
    affordable = max(int((plan.max_ms - durations.sum()) / typical), few - n)
    wanted = plan.min_launches - n
    if wanted <= 0:
        wanted = _n_lacking(durations, plan)
    return max(0, min(wanted, affordable, plan.max_launches - n))


def _n_lacking(durations: NDArray[np.float64], plan: TimingPlan) -> int:
    """Launches that the wanted precision still needs, going by the error so far."""
    timing = Timing(durations)
    n = timing.n_launches
    error, wanted = timing.standard_error, plan.relative_error * timing.median
    if error <= wanted:
        return 0
    # The error falls with the root of n, but its estimate is rough: at most triple n.
    growth = min((error / wanted) ** 2, 3.0) if wanted else 3.0
    # Each batch costs a wait, so that small ones don't pay.
    return max(math.ceil(n * growth) - n, plan.min_launches)


def _check_above(name: str, value: Any, low: float) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= low:
        raise ValueError(f"{name} must be a number above {low}, got {value!r}.")


def _check_count(name: str, value: Any, low: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}.")
