"""What was decided, kept where Inductor keeps the times of its choices."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import fasta_learn
from fasta_learn._compat import import_extra
from fasta_learn.autotuner._store import short_hash
from fasta_learn.inductor._settings import Settings

if TYPE_CHECKING:
    from fasta_learn.inductor._gemm_tuning import Call

logger = logging.getLogger("fasta_learn.inductor")

_SECTION = "fasta_learn"


class DecisionCache:
    """Says which choices a former search measured, in this process or another.

    Inductor's own cache has a time for each of them, but is only ever asked about
    choices that are made already. Which others to make is noted in the same file, for
    equal settings, versions and choices of Inductor.

    Parameters
    ----------
    selector : AlgorithmSelectorCache
        Inductor's selector, whose file it is.
    settings : Settings
        How to search.
    """

    def __init__(self, selector: Any, settings: Settings) -> None:
        self._selector = selector
        self._version = [
            settings.cache_key(),
            fasta_learn.__version__,
            str(import_extra("torch", "torch").__version__),
        ]

    def key(self, call: "Call") -> str:
        """Return what a decision is about.

        Parameters
        ----------
        call : Call
            What Inductor asks.

        Returns
        -------
        str
            16 hexadecimal digits.
        """
        torch = import_extra("torch", "torch")
        precision = torch.get_float32_matmul_precision()
        hashes = [choice.hash_key() for choice in call.choices]
        about = [call.name, call.inputs_key, call.hint, precision, hashes]
        return short_hash([*self._version, *about])

    def load(self, key: str) -> list[str] | None:
        """Return the keys of the contenders to make.

        Parameters
        ----------
        key : str
            What it is about.

        Returns
        -------
        list of str or None
            Those that have a time in Inductor's cache; None if nothing is known.
        """
        if not self._is_on:
            return None
        try:
            known = self._selector.get_local_cache().get(_SECTION, {}).get(key)
        except (OSError, ValueError, AttributeError) as error:
            logger.debug("Inductor's cache can't be read: %s", error)
            return None
        is_valid = isinstance(known, list) and all(isinstance(k, str) for k in known)
        return known if is_valid else None

    def save(self, key: str, contenders: Iterable[str]) -> None:
        """Keep a decision.

        Parameters
        ----------
        key : str
            What it is about.
        contenders : iterable of str
            Keys of contenders that have a time in Inductor's cache.
        """
        if not self._is_on:
            return
        try:
            cache = self._selector.get_local_cache()
            cache.setdefault(_SECTION, {})[key] = list(contenders)
            self._selector.update_local_cache(cache)
        except (OSError, ValueError, AttributeError) as error:
            logger.debug("Inductor's cache can't be written: %s", error)

    @property
    def _is_on(self) -> bool:
        config = import_extra("torch._inductor.config", "torch")
        return bool(config.autotune_local_cache)
