"""Turns tuning on and off."""

import threading
from types import TracebackType
from typing import Any, Self

from fasta_learn.inductor import _features, _parent_cache
from fasta_learn.inductor._patches import Patches
from fasta_learn.inductor._settings import Settings

__all__ = ["Patches", "Switch", "disable", "enable", "fix_parent_cache", "is_enabled"]

_lock = threading.RLock()


class Switch:
    """Tuning that was turned on; made by `enable`.

    As a context manager, it turns tuning off where the block ends.

    Parameters
    ----------
    settings : Settings
        How to tune.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disable()

    def disable(self) -> None:
        """Undo this `enable`; those around it count again."""
        with _lock:
            if self in _state.switches:
                _state.switches.remove(self)
                _state.refresh()


class _State:
    """Which switches are on, and what is patched for the last of them.

    Only the settings of the last switch are ever installed, so that the hooks of one
    switch never call those of another.
    """

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self.settings: Settings | None = None
        self.patches = Patches()
        self.wants_cache_fix = False
        self.cache_fix: Patches | None = None

    def refresh(self) -> None:
        """Patch for the last switch, or nothing if there is none."""
        self._refresh_cache_fix()
        wanted = self.switches[-1].settings if self.switches else None
        if wanted == self.settings:
            return
        self.patches.undo()
        self.patches, self.settings = Patches(), wanted
        if wanted is not None:
            _features.install(wanted, self.patches)

    def _refresh_cache_fix(self) -> None:
        wanted = self.wants_cache_fix or bool(self.switches)
        if wanted and self.cache_fix is None:
            self.cache_fix = Patches()
            _parent_cache.install(self.cache_fix)
        elif not wanted and self.cache_fix is not None:
            self.cache_fix.undo()
            self.cache_fix = None


_state = _State()


def enable(**settings: Any) -> Switch:
    """Tune the kernels that ``torch.compile`` makes from now on.

    Parameters
    ----------
    **settings : object
        The fields of `Settings`. What is not given is taken from the environment, or
        else is the default.

    Returns
    -------
    Switch
        A context manager that turns tuning off again at its end, with a method
        ``disable`` that does the same. Where switches are nested, the settings of
        the inner one count.

    Raises
    ------
    TypeError, ValueError
        A setting is unknown or invalid; nothing is turned on then.

    See Also
    --------
    disable : Turns all switches off.

    Notes
    -----
    What was compiled before stays as it is, until ``torch.compiler.reset()``. Each
    search is logged in one line, which ``TORCH_LOGS=fasta_learn.inductor`` shows.

    Examples
    --------
    >>> import fasta_learn.inductor
    >>> with fasta_learn.inductor.enable(gemm_budget=40):
    ...     fasta_learn.inductor.is_enabled()
    True
    >>> fasta_learn.inductor.is_enabled()
    False
    """
    return turn_on(Settings.from_environment(**settings))


def turn_on(settings: Settings) -> Switch:
    """Tune with given settings.

    Parameters
    ----------
    settings : Settings
        The settings.

    Returns
    -------
    Switch
        As `enable` returns it.
    """
    switch = Switch(settings)
    with _lock:
        _state.switches.append(switch)
        _state.refresh()
    return switch


def disable() -> None:
    """Turn tuning off, however often it was turned on, and undo `fix_parent_cache`.

    Examples
    --------
    >>> import fasta_learn.inductor
    >>> fasta_learn.inductor.disable()
    """
    with _lock:
        _state.switches.clear()
        _state.wants_cache_fix = False
        _state.refresh()


def is_enabled() -> bool:
    """Return whether tuning is on.

    Returns
    -------
    bool
        True after `enable`, until it is undone.

    Examples
    --------
    >>> import fasta_learn.inductor
    >>> fasta_learn.inductor.is_enabled()
    False
    """
    return bool(_state.switches)


def fix_parent_cache() -> None:
    """Let this process find the kernels that Inductor's workers have compiled.

    Inductor's compile workers use the ptxas that comes with torch, and this process the
    one that comes with Triton, so that kernels which are benchmarked are compiled
    twice. `enable` does this too; on its own it changes nothing else.

    Examples
    --------
    >>> import fasta_learn.inductor
    >>> fasta_learn.inductor.fix_parent_cache()
    >>> fasta_learn.inductor.disable()
    """
    with _lock:
        _state.wants_cache_fix = True
        _state.refresh()
