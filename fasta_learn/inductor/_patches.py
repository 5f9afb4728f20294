"""Attributes that are set for a while."""

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """Remembers what it sets, and puts all back.

    Attributes
    ----------
    is_over : bool
        Whether all was undone.

    Examples
    --------
    >>> import types
    >>> from fasta_learn.inductor._patches import Patches
    >>> module, patches = types.ModuleType("module"), Patches()
    >>> module.size = 1
    >>> patches.set(module, "size", 2)
    >>> patches.undo()
    >>> module.size
    1
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.is_over = False

    def __len__(self) -> int:
        return len(self._undo)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute that is there.

        Parameters
        ----------
        owner : module, class or object
            What has it.
        name : str
            Its name.
        value : object
            Its value until `undo`.

        Raises
        ------
        AttributeError
            There is no such attribute: what would be patched is not used any more.
        RuntimeError
            All was undone, perhaps by another thread, and this would never be.
        """
        getattr(owner, name)
        if self.is_over:
            raise RuntimeError(f"{name} is not set: these patches were undone.")
        # Read without descriptors, so that a static method comes back as one. What is
        # inherited is deleted in the end, not copied into the class.
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self.at_end(lambda: _restore(owner, name, before))

    def at_end(self, function: Callable[[], None]) -> None:
        """Call a function at `undo`.

        Parameters
        ----------
        function : callable
            Called without arguments, the last one added first.
        """
        self._undo.append(function)

    def undo(self, n_kept: int | None = None) -> None:
        """Put back what was set, the last first.

        Parameters
        ----------
        n_kept : int or None, default=None
            How many of the first ones stay; None undoes all, and nothing can be set
            any more.
        """
        self.is_over = self.is_over or n_kept is None
        while len(self._undo) > (n_kept or 0):
            self._undo.pop()()


def _restore(owner: Any, name: str, before: Any) -> None:
    if before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)
