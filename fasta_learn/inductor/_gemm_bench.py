"""Makes contenders ready and measures them: renders, compiles ahead, times."""

import logging
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from fasta_learn.inductor._gemm_compile import Compiles
from fasta_learn.inductor._gemm_pool import render
from fasta_learn.inductor._gemm_search import Contender
from fasta_learn.inductor._gemm_timing import ChoiceTimer
from fasta_learn.oracles import Measurement
from fasta_learn.oracles._triton_failures import classify

logger = logging.getLogger("fasta_learn.inductor")

# With more proposals open the search knows less about each; with fewer the compilers
# run dry between two measurements. Replayed on 17 recorded pools, 8 to 15 find the same
# within .2 %; with compile times of K = 1024, 15 end a quarter earlier than 10.
_MOST_OPEN = 15
# Answers are told in order, so a compile that takes much longer than the others (one of
# a thousand took half a minute) would hold up the whole search. Those of the fastest
# configs of some products take three to five seconds, the usual one half a second.
_PATIENCE_SECONDS, _PATIENCE_FACTOR, _FEWEST_SEEN = 10.0, 10.0, 5


class ChoiceBench:
    """A `Bench` for Inductor's choices.

    Parameters
    ----------
    timer : ChoiceTimer
        Measures compiled choices.
    compiles : Compiles
        Compiles choices in the background.
    render : callable
        Makes the choice of a contender.

    Attributes
    ----------
    choices : dict of Contender to ChoiceCaller
        What was made.
    render_seconds : float
        How long it took to make them.
    """

    def __init__(
        self,
        timer: ChoiceTimer,
        compiles: Compiles,
        render: Callable[[Contender], Any] = render,
    ) -> None:
        self._timer, self._compiles, self._render = timer, compiles, render
        self.choices: dict[Contender, Any] = {}
        self._errors: dict[Contender, BaseException] = {}
        self._started: dict[Contender, float] = {}
        self._seconds: list[float] = []  # from start to measurement
        self.render_seconds = 0.0
        self.n_parallel = min(compiles.n_jobs, _MOST_OPEN)

    @property
    def is_lost(self) -> bool:
        """Whether the device can't be used any more."""
        return self._timer.is_lost

    def start(self, contender: Contender) -> None:
        """Render a contender and begin to compile it."""
        started = self._started[contender] = time.perf_counter()
        try:
            choice = self._render(contender)
            if choice is None:
                raise ValueError("its template can't be rendered for it")
            self._compiles.start(choice)
            self.choices[contender] = choice
        except Exception as error:
            self._errors[contender] = error
        finally:
            self.render_seconds += time.perf_counter() - started

    def is_ready(self, contender: Contender) -> bool:
        """Tell whether a contender is compiled, has failed, or takes too long."""
        if contender in self._errors:
            return True
        if self._compiles.is_ready(self.choices[contender]):
            return True
        return self._patience_left(contender) <= 0

    def wait(self, contenders: Sequence[Contender]) -> None:
        """Wait for the first of some contenders."""
        left = min(self._patience_left(contender) for contender in contenders)
        self._compiles.wait(
            [self.choices[contender] for contender in contenders],
            None if left == math.inf else max(left, 0.0),
        )

    def _patience_left(self, contender: Contender) -> float:
        """Seconds to go on waiting; Inductor's own choices are always waited for."""
        if contender.is_stock or len(self._seconds) < _FEWEST_SEEN:
            return math.inf
        usual = statistics.median(self._seconds)
        limit = max(_PATIENCE_SECONDS, _PATIENCE_FACTOR * usual)
        return self._started[contender] + limit - time.perf_counter()

    def measure(self, contender: Contender, best: float) -> Measurement:
        """Measure a contender that is ready."""
        measurement = self._measure(contender, best)
        told = measurement.duration if measurement.ok else measurement.reason
        logger.debug("%s: %s", contender.label, told)
        return measurement

    def _measure(self, contender: Contender, best: float) -> Measurement:
        error = self._errors.get(contender)
        seconds = time.perf_counter() - self._started[contender]
        if error is None:
            if not self._compiles.is_ready(self.choices[contender]):
                reason = f"compiling takes more than {seconds:.1f} s"
                return Measurement.failed("timeout", reason)
            self._seconds.append(seconds)
            error = self._compiles.error(self.choices[contender])
        if error is not None:
            failure = classify(error, "compile")
            return Measurement(math.inf, failure.status, failure.reason)
        return self._timer.measure(self.choices[contender], best)

    def measure_again(self, contender: Contender) -> float:
        """Give one short measurement of a contender that ran before, in ms."""
        return self._timer.measure_again(self.choices[contender])
