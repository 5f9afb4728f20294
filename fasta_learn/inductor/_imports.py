"""Calls a function as soon as a module is imported, without importing it."""

import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def when_imported(name: str, function: Callable[[], None]) -> Callable[[], None]:
    """Call a function once a module is there.

    Parameters
    ----------
    name : str
        Dotted name of the module.
    function : callable
        Called without arguments: now if the module is imported, else right after its
        import. An import that is under way in this thread is waited for too. It must
        not raise.

    Returns
    -------
    callable
        Gives up waiting.
    """
    if name in sys.modules:
        module = importlib.import_module(name)  # waits for a thread that imports it
        if is_partial(module):
            return _watch(module, function)
        function()
        return lambda: None
    finder = _Finder(name, function)
    sys.meta_path.insert(0, finder)
    return finder.remove


def is_partial(module: ModuleType) -> bool:
    """Return whether the import of a module has begun and not ended.

    Parameters
    ----------
    module : module
        The module.

    Returns
    -------
    bool
        Whether names may still be missing from it.
    """
    return bool(getattr(module.__spec__, "_initializing", False))


class _WatchedSpec(importlib.machinery.ModuleSpec):
    """Calls a function when the import system notes that an import has ended."""

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        vars(self)["_initializing"] = value
        if value:
            return
        functions = vars(self).pop("_watching")
        self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
        if self.name in sys.modules:  # else the import failed
            for function in functions:
                function()


def _watch(module: ModuleType, function: Callable[[], None]) -> Callable[[], None]:
    """Call a function once this thread has imported a module, which it has begun to."""
    spec: Any = module.__spec__
    if type(spec) is not _WatchedSpec:
        vars(spec)["_watching"] = []
        spec.__class__ = _WatchedSpec
    waiting = vars(spec)["_watching"]
    waiting.append(function)

    def give_up() -> None:
        if function in waiting:
            waiting.remove(function)

    return give_up


class _Finder:
    """Finds one module as the other finders do, and adds a call after its import."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name = name
        self.function = function

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the one module."""
        if name != self.name:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec, self)  # type: ignore[assignment]
                return spec
        return None

    def remove(self) -> None:
        """Take it out of the import system."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader:
    """Stands in for the loader of a module until the module is imported."""

    def __init__(self, spec: importlib.machinery.ModuleSpec, finder: _Finder) -> None:
        self._spec, self._finder = spec, finder
        self._loader: Any = spec.loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to the loader."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module as its own loader does, then call the function."""
        # From here on nothing shows that another loader was there.
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            self._finder.remove()
            self._finder.function()
