"""Whether the options of an oracle of Triton kernels are valid."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any


def check_options(
    isolate: Any, devices: Any, n_jobs: Any, lookahead: Any, **seconds: Any
) -> None:
    """Raise if an option is not valid.

    Parameters
    ----------
    isolate, devices, n_jobs, lookahead
        As `TritonKernelOracle` takes them.
    **seconds
        Timeouts by their names.

    Raises
    ------
    ValueError
        An option is not valid; the message says which.
    """
    if devices is not None:
        _check_devices(isolate, devices)
    if n_jobs is not None and not _is_count(n_jobs, 1):
        raise ValueError(f"n_jobs must be a positive int or None, got {n_jobs!r}.")
    if lookahead != "auto" and not _is_count(lookahead, 0):
        raise ValueError(
            f"lookahead must be 'auto' or an int of at least 0, got {lookahead!r}."
        )
    for name, value in seconds.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 < float(value) < math.inf:
            raise ValueError(
                f"{name} must be a positive, finite number of seconds, got {value!r}."
            )


def device_of(args: Sequence[Any] | Mapping[str, Any]) -> int | None:
    """Tell on which device the arguments of a kernel are.

    Parameters
    ----------
    args : sequence or mapping of str to object
        The arguments.

    Returns
    -------
    int or None
        Index of the device of the first tensor that is on a GPU; None if there is
        none.
    """
    values = args.values() if isinstance(args, Mapping) else args
    for value in values:
        if getattr(value, "is_cuda", False):
            index: int | None = value.device.index
            return index
    return None


def _check_devices(isolate: bool, devices: Any) -> None:
    is_list = isinstance(devices, Sequence) and not isinstance(devices, str)
    if (
        not is_list
        or not len(devices)
        or not all(_is_count(device, 0) for device in devices)
        or len(set(devices)) < len(devices)
    ):
        raise ValueError(
            "devices must be a list of different device indices, such as [0, 1], or "
            f"None; got {devices!r}."
        )
    if len(devices) > 1 and not isolate:
        raise ValueError(
            f"{len(devices)} devices need isolate=True: a process measures on one."
        )


def _is_count(value: Any, low: int) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    return is_int and int(value) >= low
