"""The search for the config of a kernel on an Ascend NPU."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fasta_learn.inductor._npu_pool import (
    Candidates,
    cannot_fit,
    describe_work,
    find_candidates,
)
from fasta_learn.inductor._npu_settings import NPUSettings, make_search
from fasta_learn.inductor._npu_stages import Stages
from fasta_learn.inductor._settings import Settings
from fasta_learn.oracles import BaseOracle, Measurement

logger = logging.getLogger("fasta_learn.inductor")

# Compiled at a time after the first round. Compiling is what takes long, and the
# search loses little by deciding on so many at once.
_BATCH = 4


class NPUSearch:
    """The search among the candidates of one kernel.

    Equal arguments make the same first round, so that a process can compile it and
    another one go on.

    Parameters
    ----------
    plan : mapping
        What torch_npu's ``build_candidate_plan`` makes.
    sizes : mapping or anything else
        Size of each axis, as for `describe_work`.
    n_cores : int
        Vector cores of the device.
    settings : Settings
        Budget, time and seed.
    npu : NPUSettings
        Which search.

    Attributes
    ----------
    candidates : Candidates
        The pool.
    first : list of int
        Indices of the first round.
    measured : dict of int to Measurement
        What was measured, by index.
    compiled : set of str
        Names of the variants that were asked for.
    stages : Stages
        How long the rounds took.
    stop_reason : str
        Why it ended.
    """

    def __init__(
        self,
        plan: Mapping[str, Any],
        sizes: Any,
        n_cores: int,
        settings: Settings,
        npu: NPUSettings,
    ) -> None:
        self.candidates: Candidates = find_candidates(plan)
        configs = self.candidates.configs
        self._is_filter = npu.shares is not None
        if not self._is_filter:
            configs = describe_work(configs, sizes, n_cores)
        self._search = make_search(settings, npu, len(configs))
        self.first = [int(i) for i in self._search.propose(configs)]
        self.measured: dict[int, Measurement] = {}
        self.compiled: set[str] = set()
        self.stages = Stages()
        self.stop_reason = ""
        self._failed: dict[str, Measurement] = {}

    def first_variants(self) -> list[str]:
        """Return what has to be compiled for the first round.

        Returns
        -------
        list of str
            Names of variants, each once.
        """
        variants = self.candidates.variants
        return list(dict.fromkeys(variants[index] for index in self.first))

    def run(self, oracle: BaseOracle, failed: Mapping[str, Measurement]) -> list[int]:
        """Measure until the budget is used up, and longer if all have failed so far.

        Parameters
        ----------
        oracle : BaseOracle
            What measures.
        failed : mapping of str to Measurement
            Variants that were compiled for the first round and failed.

        Returns
        -------
        list of int
            Indices of those that ran, the fastest first.

        Raises
        ------
        Exception
            What the oracle raises, if none has run before.
        """
        self._failed = dict(failed)
        self.compiled.update(self.first_variants())
        indices: Sequence[int] = self.first
        try:
            while len(indices):
                self._measure_round(indices, oracle)
                indices = self._propose()
            self.stop_reason = self._search.stop_reason_ or ""
            if not self.n_ok:
                self._measure_rest(oracle)
        except Exception as error:
            if not self.n_ok:
                raise
            self.stop_reason = "error"
            logger.warning("a search broke off, the best so far is used: %s", error)
        good = [index for index, m in self.measured.items() if m.ok]
        return sorted(good, key=lambda index: self.measured[index].duration)

    @property
    def best_duration(self) -> float:
        """Duration of the fastest in ms; inf if none ran."""
        return min((m.duration for m in self.measured.values()), default=math.inf)

    @property
    def n_ok(self) -> int:
        """How many have run."""
        return sum(m.ok for m in self.measured.values())

    def _propose(self) -> list[int]:
        """Ask for the next round, without what is known not to fit."""
        while True:
            n_next = None if self._is_filter else _BATCH
            indices = [int(i) for i in self._search.propose(n_configs=n_next)]
            hopeless = [i for i in indices if self._is_hopeless(i)]
            if not hopeless:
                return indices
            self._search.discard(hopeless)
            if len(hopeless) < len(indices):
                return [i for i in indices if i not in hopeless]

    def _is_hopeless(self, index: int) -> bool:
        """Tell whether a candidate needs the buffer that another one did not get."""
        if self._is_filter:
            return False
        candidates = self.candidates
        if candidates.variants[index] in self._failed:
            return True
        config = candidates.configs[index]
        return any(
            cannot_fit(
                config,
                candidates.configs[other],
                measurement.info.get("required_bits"),
                measurement.info.get("available_bits"),
            )
            for other, measurement in self.measured.items()
            if measurement.status == "out_of_resources"
        )

    def _measure_round(self, indices: Sequence[int], oracle: BaseOracle) -> None:
        number = len(self._search.rounds_) + 1
        name = "R1_BENCHMARK" if number == 1 else f"R{number}"
        with self.stages.stage(name, len(indices)):
            told = self._measure(indices, oracle)
        self._search.partial_fit(np.array(list(told), dtype=np.intp), [*told.values()])

    def _measure_rest(self, oracle: BaseOracle) -> None:
        """Measure what the search has left out, until one config runs."""
        rest = [i for i in range(len(self.candidates)) if i not in self.measured]
        while rest and not self.n_ok:
            batch, rest = rest[:_BATCH], rest[_BATCH:]
            with self.stages.stage("REST", len(batch)):
                self._measure(batch, oracle)

    def _measure(
        self, indices: Iterable[int], oracle: BaseOracle
    ) -> dict[int, Measurement]:
        """Measure candidates; those of variants that did not compile are known."""
        variants = self.candidates.variants
        told: dict[int, Measurement] = {}
        todo = []
        for index in indices:
            if (known := self._failed.get(variants[index])) is not None:
                told[index] = self.measured[index] = known
            else:
                todo.append(index)
        self.compiled.update(variants[index] for index in todo)
        chosen = [self.candidates.full[index] for index in todo]
        oracle.prepare(chosen)
        for index, measurement in zip(todo, oracle.measure_each(chosen), strict=True):
            told[index] = self.measured[index] = measurement
            if measurement.status in ("compile_error", "out_of_resources"):
                self._failed[variants[index]] = measurement
        return told

    def summary(self, kernel: str) -> str:
        """Return one line about the search.

        Parameters
        ----------
        kernel : str
            Name of the kernel.

        Returns
        -------
        str
            The line.
        """
        summary = self._search.summary_
        n_variants = len(set(self.candidates.variants))
        n_failed = len(self.measured) - self.n_ok
        return (
            f"{kernel}: N {len(self.candidates)}, D {summary['n_features']}, "
            f"class {summary['budget_class']}, path {summary['path']}, "
            f"measured {len(self.measured)} ({n_failed} failed), "
            f"compiled {len(self.compiled)} of {n_variants} variants "
            f"({1 - len(self.compiled) / n_variants:.0%} saved), "
            f"rounds {summary['n_rounds']}, best {self.best_duration:.6g} ms, "
            f"stop {self.stop_reason or '-'}, "
            f"confidence {summary['confidence_label']}, "
            f"overhead {1e3 * summary['overhead_seconds']:.0f} ms"
        )
