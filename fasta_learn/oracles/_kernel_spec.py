"""What is to be tuned: a kernel, its arguments and its configs, as users write it."""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fasta_learn.exceptions import MissingExtraError
from fasta_learn.oracles._measurement import bound_reason

if TYPE_CHECKING:
    from fasta_learn.oracles._triton import TritonKernelOracle

_EXTRAS = {"torch": "torch", "triton": "torch", "torch_npu": "npu"}


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelSpec:
    """A kernel with everything that is needed to tune it.

    A function that returns one is all that ``fasta-learn tune`` and ``fasta-learn
    record`` need.

    Parameters
    ----------
    kernel : object
        The function decorated by ``triton.jit``.
    args : sequence or mapping of str to object
        The arguments of the kernel that neither configs nor `constants` set, in its
        order or by name.
    grid : tuple of int or callable
        The grid, or a function that takes all parameters as a dict and returns it.
    configs : sequence of configs
        The pool to search: a `TileSpace`, or a list of dicts or ``triton.Config``.
    constants : mapping of str to object, default={}
        Further keyword arguments of the kernel, the same for every config.
    reset_to_zero : sequence of str, default=()
        Names of tensors that are filled with zeros before each launch.
    restore_value : sequence of str, default=()
        Names of tensors that get back their value before each launch.
    check : mapping of str to tensor, callable or None, default=None
        The results that are right, by the name of the argument, or a function that
        takes the arguments and raises an AssertionError or returns False if they are
        wrong. Configs with wrong results fail.
    name : str, default=None
        Name of what is tuned; by default that of the kernel.
    shape : mapping of str to int, default={}
        Sizes of the problem by axis, such as ``{"m": 4096, "n": 512, "k": 64}``.
    source : tuple of (str, dict) or None, default=None
        Where it comes from, as the arguments of `load_kernel_spec`, which sets it.

    Raises
    ------
    ValueError
        There are no configs.

    See Also
    --------
    load_kernel_spec : Calls the function that returns one.
    fasta_learn.configs.TileSpace : Makes pools.

    Examples
    --------
    >>> from fasta_learn.oracles import KernelSpec
    >>> def add_kernel(x, BLOCK):
    ...     "Stands in for a function decorated by triton.jit."
    >>> spec = KernelSpec(
    ...     kernel=add_kernel, args=[None], grid=(1,), configs=[{"BLOCK": 64}]
    ... )
    >>> spec.name
    'add_kernel'
    """

    kernel: Any
    args: Sequence[Any] | Mapping[str, Any]
    grid: tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]]
    configs: Sequence[Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    reset_to_zero: Sequence[str] = ()
    restore_value: Sequence[str] = ()
    check: Mapping[str, Any] | Callable[[dict[str, Any]], bool | None] | None = None
    name: str = ""
    shape: Mapping[str, int] = field(default_factory=dict)
    source: tuple[str, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or _kernel_name(self.kernel))
        if not len(self.configs):
            raise ValueError(
                f"the kernel spec {self.name!r} has no configs; pass a TileSpace or a "
                "list of configs."
            )

    def oracle(self, **options: Any) -> "TritonKernelOracle":
        """Return what measures the configs.

        Parameters
        ----------
        **options
            Those of `TritonKernelOracle`, such as ``devices`` and ``isolate``.

        Returns
        -------
        TritonKernelOracle
            The oracle; it is to be closed.

        Raises
        ------
        MissingExtraError
            Torch or triton is not installed.
        """
        from fasta_learn.oracles._triton import TritonKernelOracle

        return TritonKernelOracle.from_spec(self, **options)


def load_kernel_spec(
    target: str, parameters: Mapping[str, Any] | None = None
) -> KernelSpec:
    """Import a function and have it return a kernel spec.

    Parameters
    ----------
    target : str
        ``"module:function"`` or ``"path/to/file.py:function"``. Modules are also
        looked for in the current folder, and what a file imports in its folder.
    parameters : mapping of str to object, default=None
        Keyword arguments of the function.

    Returns
    -------
    KernelSpec
        What the function returns. It remembers where it comes from.

    Raises
    ------
    MissingExtraError
        The module needs torch or triton, and it is not installed.
    FileNotFoundError
        There is no such file.
    ValueError
        The target is not of this form, can't be imported or has no such function;
        the function has no such parameters, fails, or returns something else.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fasta_learn.oracles import load_kernel_spec
    >>> text = '''
    ... from fasta_learn.oracles import KernelSpec
    ...
    ... def add_kernel(x, BLOCK):
    ...     "Stands in for a function decorated by triton.jit."
    ...
    ... def add(size=1024):
    ...     return KernelSpec(
    ...         kernel=add_kernel, args=[size], grid=(1,), configs=[{"BLOCK": 64}]
    ...     )
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernels.py"
    ...     _ = path.write_text(text)
    ...     spec = load_kernel_spec(f"{path}:add", {"size": 4096})
    >>> spec.name, spec.args
    ('add_kernel', [4096])
    """
    place, _, name = target.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(
            f"{target!r} names no kernel spec; write module:function or "
            "path/to/file.py:function."
        )
    parameters = dict(parameters or {})
    path = Path(place).absolute() if place.endswith(".py") else None
    with _import_path(path.parent if path else Path.cwd()):
        module = _import_file(path) if path else _import_module(place)
        spec = _call(_find(module, name, target), parameters, target)
    source = f"{path}:{name}" if path else target
    return replace(spec, source=(source, parameters))


def _kernel_name(kernel: Any) -> str:
    # Autotuner and Heuristics hold what they decorate in `fn`.
    while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", type(kernel).__name__))


@contextlib.contextmanager
def _import_path(folder: Path) -> Iterator[None]:
    """Look for modules in a folder first, as Python does for a script in it."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)


def _import_module(name: str) -> ModuleType:
    with _explained(f"importing the module {name!r}"):
        return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    # A name of its own, since the stem may be that of an installed module; the same
    # for the same file, so that pickles find it.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"fasta_learn_spec_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} can't be imported; is it a Python file?")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _explained(f"importing the file {path}"):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Say in one line what failed, and what it lacks."""
    try:
        yield
    except Exception as error:
        name = getattr(error, "name", None) if isinstance(error, ImportError) else None
        extra = _EXTRAS.get((name or "").partition(".")[0])
        if extra is not None:
            raise MissingExtraError(
                f"{what} needs {name}, which can't be imported ({error}); install it "
                f"by: pip install 'fasta-learn[{extra}]'."
            ) from error
        reason = bound_reason(error).rstrip(".")
        hint = (
            ""
            if _sees_gpu()
            else ("; torch sees no GPU here ('fasta-learn doctor' shows the devices)")
        )
        raise ValueError(f"{what} failed: {reason}{hint}.") from error


def _sees_gpu() -> bool:
    """Tell whether there is a GPU; also if nobody has asked for torch."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.cuda.is_available())


def _find(module: ModuleType, name: str, target: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(module, name, None)
    if callable(function):
        return function
    defined = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    raise ValueError(
        f"{target!r} has no function {name!r}; the functions that it defines are: "
        f"{', '.join(defined) or 'none'}."
    )


def _call(
    function: Callable[..., Any], parameters: dict[str, Any], target: str
) -> KernelSpec:
    signature = inspect.signature(function)
    try:
        signature.bind(**parameters)
    except TypeError as error:
        raise ValueError(
            f"{target!r} can't be called so: {error}; its parameters are {signature}."
        ) from error
    with _explained(f"calling {target!r}"):
        spec = function(**parameters)
    if not isinstance(spec, KernelSpec):
        raise ValueError(
            f"{target!r} must return a KernelSpec, got {type(spec).__name__}."
        )
    return spec
