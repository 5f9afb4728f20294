"""What a kernel writes: put back before a launch, and compared after it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fasta_learn.exceptions import WrongResultError
from fasta_learn.oracles._triton_arguments import import_torch, tensor_of

# Relative to the typical size of the expected values. They leave room for another
# order of summation and for TF32, not for a block that is missing.
_TOLERANCES = {"float64": 1e-6, "float32": 4e-3, "float16": 1e-2, "bfloat16": 2e-2}
_COARSE_TOLERANCE = 0.125  # types of 8 bits and fewer


class ArgumentMemory:
    """Tensor arguments that get back their content before each launch.

    Parameters
    ----------
    args : mapping
        The kernel's arguments by name.
    reset_to_zero : iterable of str
        Names of tensors that are to be zero.
    restore_value : iterable of str
        Names of tensors that are to be as they were at the first `snapshot`.

    Raises
    ------
    ValueError
        One of the names is no tensor argument.
    """

    def __init__(
        self,
        args: Mapping[str, Any],
        reset_to_zero: Iterable[str],
        restore_value: Iterable[str],
    ) -> None:
        zeroed = named_tensors(args, reset_to_zero, "reset_to_zero")
        restored = named_tensors(args, restore_value, "restore_value")
        self._zeroed = {k: _without_repetition(v) for k, v in zeroed.items()}
        self._restored = {k: _without_repetition(v) for k, v in restored.items()}
        self._copies: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._zeroed or self._restored)

    def snapshot(self) -> None:
        """Remember what is to be restored; a second call does nothing."""
        if not self._copies:
            for name, tensor in self._restored.items():
                self._copies[name] = tensor.clone()

    def put_back(self) -> None:
        """Zero and restore; enqueued on the current stream."""
        self.snapshot()
        for tensor in self._zeroed.values():
            tensor.zero_()
        for name, tensor in self._restored.items():
            tensor.copy_(self._copies[name])

    def forget(self) -> None:
        """Free the copies."""
        self._copies.clear()


class ResultCheck:
    """Compares what a kernel has written with what it should write.

    Parameters
    ----------
    args : mapping
        The kernel's arguments by name.
    check : callable, mapping or None
        Takes the arguments, returns False or raises an AssertionError if they are
        wrong; or the expected tensors by name.
    kept : iterable of str
        Names of tensors that the kernel reads, too, and that are not to be poisoned.

    Raises
    ------
    ValueError
        An expected tensor is for no tensor argument, or of another shape.
    """

    def __init__(
        self,
        args: Mapping[str, Any],
        check: Callable[[dict[str, Any]], bool | None] | Mapping[str, Any] | None,
        kept: Iterable[str],
    ) -> None:
        self._args = dict(args)
        self._expected = dict(check) if isinstance(check, Mapping) else {}
        self._function = None if isinstance(check, Mapping) else check
        tensors = named_tensors(args, self._expected, "check")
        _check_shapes(tensors, self._expected)
        self._poisoned = {k: v for k, v in tensors.items() if k not in set(kept)}

    def __bool__(self) -> bool:
        return bool(self._expected) or self._function is not None

    def poison(self) -> None:
        """Make expected results wrong, so that only the kernel can make them right."""
        for name, tensor in self._poisoned.items():
            _make_wrong(tensor, self._expected[name])

    def verify(self) -> None:
        """Compare.

        Raises
        ------
        WrongResultError
            The result is wrong; the message says where and by how much.
        """
        for name, expected in self._expected.items():
            compare(name, tensor_of(self._args[name]), expected)
        if self._function is not None:
            self._call(self._function)

    def _call(self, check: Callable[[dict[str, Any]], bool | None]) -> None:
        try:
            answer = check(dict(self._args))
        except WrongResultError:
            raise
        except AssertionError as error:
            raise WrongResultError(str(error) or "the check has failed") from error
        if answer is not None and not bool(answer):
            raise WrongResultError("the check has returned False")


def named_tensors(
    args: Mapping[str, Any], names: Iterable[str], where: str
) -> dict[str, Any]:
    """Give the tensors of some arguments.

    Parameters
    ----------
    args : mapping
        The kernel's arguments by name.
    names : iterable of str
        Which.
    where : str
        Name of the parameter that has them, for the message.

    Returns
    -------
    dict
        Name to tensor; arguments that are None are left out.

    Raises
    ------
    ValueError
        A name is no argument, or the argument is no tensor.
    """
    found = {}
    for name in names:
        if name not in args:
            raise ValueError(
                f"{where} has {name!r}, which is not in args; they are {list(args)}."
            )
        if args[name] is None:
            continue
        tensor = tensor_of(args[name])
        if tensor is None:
            kind = type(args[name]).__name__
            raise ValueError(f"{where} has {name!r}, which is a {kind}, no tensor.")
        found[name] = tensor
    return found


def compare(name: str, found: Any, expected: Any) -> None:
    """Compare a tensor with the expected one, to the precision of its type.

    Integers and bools must be equal. Other values may differ by a tolerance times
    the sum of the expected value's size and the root mean square of all expected
    values; the tolerance is 1e-6 for float64, 4e-3 for float32, 1e-2 for float16,
    2e-2 for bfloat16, and 0.125 for smaller types. NaN equals NaN.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    found, expected : torch.Tensor of the same shape
        What there is, and what there should be.

    Raises
    ------
    WrongResultError
        They differ.
    """
    torch = import_torch()
    expected = expected.to(found.device)
    exact = not (found.dtype.is_floating_point or found.dtype.is_complex)
    if exact:
        wrong = found != expected
    else:
        wide = found.dtype in (torch.float64, torch.complex128)
        real = torch.float64 if wide else torch.float32
        kind = torch.promote_types(real, torch.complex64)
        kind = kind if found.dtype.is_complex else real
        a, b = found.to(kind), expected.to(kind)
        size = b.abs()
        finite = torch.where(size.isfinite(), size, 0)
        typical = finite.square().mean().sqrt()
        close = (a - b).abs() <= _tolerance(found.dtype) * (finite + typical)
        wrong = ~(close | (a == b) | (a.isnan() & b.isnan()))
    n_wrong = int(wrong.sum())
    if n_wrong:
        raise WrongResultError(_describe(name, found, expected, wrong, n_wrong))


def _tolerance(dtype: Any) -> float:
    name = str(dtype).removeprefix("torch.")
    names = {"complex128": "float64", "complex64": "float32"}
    return _TOLERANCES.get(names.get(name, name), _COARSE_TOLERANCE)


def _describe(name: str, found: Any, expected: Any, wrong: Any, n_wrong: int) -> str:
    place = tuple(wrong.nonzero()[0].tolist())
    text = (
        f"{name} is wrong at {n_wrong} of {wrong.numel()} places, first at "
        f"{list(place)}: {found[place].item():.6g} instead of "
        f"{expected[place].item():.6g}"
    )
    if found.dtype.is_floating_point and bool(found[wrong].isnan().all()):
        # What the check has put there: see ResultCheck.poison.
        text += " (not written, or computed from its own earlier content)"
    return text


def _make_wrong(tensor: Any, expected: Any) -> None:
    torch = import_torch()
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.copy_(~expected.to(tensor.device, torch.bool))
    else:
        # Unsigned types have few operations: subtract in a wide type, and wrap.
        other = expected.to(tensor.device, torch.int64) ^ 0x55
        tensor.copy_(other.to(tensor.dtype))


def _without_repetition(tensor: Any) -> Any:
    """Leave out what an expanded tensor repeats: it can't be written in place."""
    for axis, (size, stride) in enumerate(
        zip(tensor.shape, tensor.stride(), strict=True)
    ):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _check_shapes(tensors: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    torch = import_torch()
    for name, tensor in tensors.items():
        value = expected[name]
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape:
            kind = getattr(value, "shape", type(value).__name__)
            raise ValueError(
                f"check[{name!r}] must be a tensor of shape {tuple(tensor.shape)}, "
                f"got {tuple(kind) if not isinstance(kind, str) else kind}."
            )
