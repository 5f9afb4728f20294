"""What the prior that ships with the package tells about Inductor's kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fasta_learn.inductor._pointwise_pool import KernelFacts
from fasta_learn.transfer import load_default_prior


class InductorPrior:
    """The default prior, asked in the words that it has learned.

    Inductor calls the same tile sizes by other names, and has some of them written into
    the kernel, where no config shows them.

    Parameters
    ----------
    facts : KernelFacts
        The kernel.
    is_outer : bool, default=False
        Whether the rows that are reduced are not contiguous.
    base : object with ``predict``, default=None
        Another prior than the one that ships.
    """

    def __init__(
        self, facts: KernelFacts, *, is_outer: bool = False, base: Any = None
    ) -> None:
        self._facts, self._is_outer = facts, is_outer
        self._base = load_default_prior() if base is None else base

    def predict(self, configs: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
        """Predict which share of the best speed of their pool configs lose.

        Parameters
        ----------
        configs : sequence of dict
            The pool.

        Returns
        -------
        ndarray of shape (n_configs,)
            Between 0 and 1.
        """
        translated = [self.translate(config) for config in configs]
        return np.asarray(self._base.predict(translated), dtype=np.float64)

    def translate(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a config in the words of the recorded pools.

        Parameters
        ----------
        config : dict
            A config of Inductor's.

        Returns
        -------
        dict
            The config as the prior knows such.
        """
        x = config.get("XBLOCK", 1)
        words: dict[str, Any] = {"X0BLOCK": x, "num_warps": config["num_warps"]}
        if "YBLOCK" in config:
            words["Y0BLOCK"] = config["YBLOCK"]
        if self._facts.kind == "pointwise":
            return words
        if self._facts.kind == "persistent_reduction":
            words["R0BLOCK"] = self._facts.reduced
        else:
            words["R0BLOCK"] = config.get("R0_BLOCK", 1) * config.get("R1_BLOCK", 1)
        # Sums over columns and over rows were recorded with another parameter each.
        words["SPLIT" if self._is_outer else "X0BLOCK_SUB"] = 1 if self._is_outer else x
        return words
