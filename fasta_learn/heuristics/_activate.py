"""Lets torch find the installed artifacts.

This is loaded by ``import torch`` where ``FASTA_LEARN_HEURISTICS`` is set, so it
imports nothing heavy, and of torch only what is imported already.
"""

import importlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fasta_learn.heuristics._install_store import (
    InstalledArtifact,
    combined_hash,
    find_folder,
    read_folder,
)
from fasta_learn.inductor._imports import when_imported

logger = logging.getLogger("fasta_learn.heuristics")

_ARTIFACTS = "torch._inductor.autoheuristic.artifacts"
_CONTROLLER = "torch._inductor.autoheuristic.learned_heuristic_controller"
_CONFIG = "torch._inductor.config"
_CACHE_DIR = "torch._inductor.runtime.cache_dir_utils"
_UTILS = "torch._inductor.utils"
_USE, _CACHE = "TORCHINDUCTOR_AUTOHEURISTIC_USE", "TORCHINDUCTOR_CACHE_DIR"
_DEFAULT_USE = "mixed_mm"  # of torch
_TAG = re.compile(r"fasta_learn_heuristics_[0-9a-f]{16}")

_lock = threading.RLock()


class Activation:
    """Installed artifacts that torch uses; made by `activate`.

    As a context manager, it ends where the block ends.

    Parameters
    ----------
    artifacts : list of InstalledArtifact
        What torch is to use.
    folder : Path
        Where they are installed.

    Attributes
    ----------
    artifacts : list of InstalledArtifact
        What torch uses.
    """

    def __init__(self, artifacts: list[InstalledArtifact], folder: Path) -> None:
        self.artifacts = artifacts
        self._folder = str(folder)
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.deactivate()

    def deactivate(self) -> None:
        """Let torch decide as without them, from the next compile on."""
        with _lock:
            while self._undo:
                self._undo.pop()()
            if self in _active:
                _active.remove(self)

    def start(self) -> None:
        """Switch them on, each part now or when torch has imported what it needs."""
        names = sorted({artifact.name for artifact in self.artifacts})
        use = os.environ.get(_USE, _DEFAULT_USE)
        before = None if _CONFIG in sys.modules else use
        self._set_environment(_USE, _joined(use, names))
        configure = partial(self._configure, names, before)
        for module, function in (
            (_CONFIG, configure),
            (_CACHE_DIR, self._separate_caches),
            (_ARTIFACTS, self._show),
        ):
            self._undo.append(when_imported(module, function))

    def _set_environment(self, name: str, value: str) -> None:
        before = os.environ.get(name)
        os.environ[name] = value

        def restore() -> None:
            if os.environ.get(name) != value:
                return  # somebody else has set it since
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before

        self._undo.append(restore)

    def _configure(self, names: list[str], before: str | None) -> None:
        """Tell the configuration, which may have read the environment before."""
        config: Any = sys.modules[_CONFIG]
        use = config.autoheuristic_use
        if isinstance(use, str):  # up to torch 2.11
            config.autoheuristic_use = _joined(use, names)
            self._undo.append(partial(_set, config, "autoheuristic_use", before or use))
            return
        for name in names:
            if not hasattr(use, name):
                continue  # torch reads the environment each time
            old = getattr(use, name)
            if before is not None:  # else the environment above is in it
                old = True if name in before.split(",") else None
            setattr(use, name, True)
            self._undo.append(partial(_set, use, name, old))

    def _separate_caches(self) -> None:
        """Use a cache folder of these artifacts: torch's keys do not know of them."""
        utils: Any = sys.modules[_CACHE_DIR]
        before = Path(os.environ.get(_CACHE) or utils.default_cache_dir())
        # A parent process may have set it, for other artifacts perhaps.
        base = before.parent if _TAG.fullmatch(before.name) else before
        tag = f"fasta_learn_heuristics_{combined_hash(self.artifacts)}"
        self._undo.append(_forget_caches)
        self._set_environment(_CACHE, str(base / tag))
        _forget_caches()

    def _show(self) -> None:
        """Put the folder where torch looks for artifacts, before its own."""
        package: Any = sys.modules[_ARTIFACTS]
        package.__path__.insert(0, self._folder)
        self._undo.append(partial(package.__path__.remove, self._folder))
        importlib.invalidate_caches()
        controller = _controller()
        if controller is not None and controller.heuristics_initialized:
            self._add(controller)  # torch will not look again
        self._undo.append(self._remove)

    def _add(self, controller: Any) -> None:
        for artifact in self.artifacts:
            try:
                module = importlib.import_module(f"{_ARTIFACTS}.{artifact.module_name}")
                heuristic = getattr(module, artifact.class_name)()
            except Exception as error:
                logger.warning("%s can't be used: %s", artifact.path, error)
                continue
            controller.existing_heuristics[artifact.name].insert(0, heuristic)

    def _remove(self) -> None:
        controller = _controller()
        mine = {f"{_ARTIFACTS}.{artifact.module_name}" for artifact in self.artifacts}
        for heuristics in controller.existing_heuristics.values() if controller else ():
            heuristics[:] = [
                heuristic
                for heuristic in heuristics
                if type(heuristic).__module__ not in mine
            ]


_active: list[Activation] = []


def activate(*, folder: str | os.PathLike[str] | None = None) -> Activation:
    """Let ``torch.compile`` decide by the installed artifacts from now on.

    They are asked before those that ship with torch, and only on the devices that they
    are for. Torch's caches know nothing of them, so a folder of its own within
    Inductor's cache folder is used, one for each set of artifacts. What was compiled
    before stays as it is until ``torch.compiler.reset()``.

    Parameters
    ----------
    folder : path-like, default=None
        Where they are installed; by default the folder of the user.

    Returns
    -------
    Activation
        A context manager that ends it, with a method ``deactivate`` that does the
        same.

    Raises
    ------
    ValueError
        Nothing is installed.

    See Also
    --------
    install : Installs an artifact.

    Notes
    -----
    ``FASTA_LEARN_HEURISTICS=1`` in the environment does this at each ``import torch``.

    Examples
    --------
    >>> from fasta_learn import heuristics
    >>> with heuristics.activate():  # doctest: +SKIP
    ...     torch.compile(model)(x)
    """
    place = find_folder(folder)
    artifacts = read_folder(place)
    if not artifacts:
        raise ValueError(
            f"no artifact is installed in {place}; install one by 'fasta-learn "
            "heuristic install FILE'."
        )
    activation = Activation(artifacts, place)
    with _lock:
        _active.append(activation)
        activation.start()
    return activation


def deactivate() -> None:
    """End all activations.

    Examples
    --------
    >>> from fasta_learn import heuristics
    >>> heuristics.deactivate()
    """
    with _lock:
        for activation in reversed(_active.copy()):
            activation.deactivate()


def _joined(use: str, names: list[str]) -> str:
    known = [name for name in use.split(",") if name]
    return ",".join([*known, *(name for name in names if name not in known)])


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def _controller() -> Any:
    """Return torch's controller of heuristics, if it is imported."""
    module = sys.modules.get(_CONTROLLER)
    return getattr(module, "LearnedHeuristicController", None)


def _forget_caches() -> None:
    """Have torch ask for its cache folder again."""
    utils = sys.modules.get(_UTILS)
    if utils is not None and hasattr(utils, "clear_caches"):
        utils.clear_caches()
