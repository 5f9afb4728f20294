"""What a config is: its parameters as a plain dict, and its canonical key."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def is_config(value: object) -> bool:
    """Tell whether a value is a config with named parameters.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool
        True for a mapping and for an object whose ``kwargs`` is a mapping.
    """
    return isinstance(value, Mapping) or isinstance(
        getattr(value, "kwargs", None), Mapping
    )


def config_to_dict(config: Any) -> dict[str, Any]:
    """Return all parameters of a config as a plain dict.

    Parameters
    ----------
    config : mapping, object with ``kwargs``, or 1-D array
        An object such as ``triton.Config`` contributes its ``kwargs`` and those of
        num_warps, num_stages, num_ctas and maxnreg that are not None; these win
        over keywords of the same name, as they do at launch. An array is a row of
        a matrix pool and its columns are called x0, x1, ...

    Returns
    -------
    dict of str to object
        A new dict; NumPy scalars have become Python scalars.

    Raises
    ------
    TypeError
        The config is of another type, or a parameter name is not text.

    Examples
    --------
    >>> import numpy as np
    >>> from fasta_learn.configs import config_to_dict
    >>> config_to_dict({"BLOCK_M": np.int64(64), "num_warps": 4})
    {'BLOCK_M': 64, 'num_warps': 4}
    """
    return _plain(config, "config")


def configs_to_dicts(configs: Iterable[Any]) -> list[dict[str, Any]]:
    """Apply `config_to_dict` to many configs; errors name the position.

    Parameters
    ----------
    configs : iterable of config
        The configs.

    Returns
    -------
    list of dict
        One dict for each config, in order.

    Raises
    ------
    TypeError
        One of them is no config; the message says which.
    """
    return [_plain(config, f"configs[{i}]") for i, config in enumerate(configs)]


def config_key(config: Any) -> str:
    """Return the canonical text of a config: equal for equal parameters only.

    Parameters
    ----------
    config : mapping, object with ``kwargs``, or 1-D array
        As in `config_to_dict`. Values are numbers, text, bools, None, lists of
        these, or objects with a stable text form such as a Triton dtype.

    Returns
    -------
    str
        JSON with sorted names. The order of the parameters does not matter;
        1, 1.0 and True give different keys, a NumPy scalar gives that of the
        Python scalar, and a tuple that of the list.

    Raises
    ------
    TypeError
        The config, a name or a value is of a type that has no canonical text.

    Examples
    --------
    >>> from fasta_learn.configs import config_key
    >>> config_key({"num_warps": 4, "BLOCK_M": 64})
    '{"BLOCK_M":64,"num_warps":4}'
    """
    return _ENCODER.encode(_plain(config, "config"))


def _plain(config: Any, where: str) -> dict[str, Any]:
    if isinstance(config, Mapping):
        parameters = dict(config)
    elif isinstance(getattr(config, "kwargs", None), Mapping):
        parameters = dict(config.kwargs)
        for name in LAUNCH_OPTIONS:
            if (value := getattr(config, name, None)) is not None:
                parameters[name] = value
    elif isinstance(config, np.ndarray) and config.ndim == 1:
        parameters = {f"x{i}": value for i, value in enumerate(config)}
    else:
        raise TypeError(
            f"{where} is of type {type(config).__name__}; expected a dict of "
            "parameters, an object with a dict `kwargs` such as triton.Config, "
            "or a 1-D array."
        )
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TypeError(
                f"{where} has the parameter name {name!r} of type "
                f"{type(name).__name__}; names must be text."
            )
        if isinstance(value, np.generic):
            parameters[name] = value.item()
    return parameters


def _encode_other(value: Any) -> Any:
    """Encode what JSON does not know, for the JSON encoder to go on with."""
    if isinstance(value, np.generic):
        return value.item()
    text = str(value)
    # An object whose text holds its address would get another key in the next
    # process; an array's text leaves out its middle.
    if " at 0x" in text or type(value).__hash__ is None:
        raise TypeError(
            f"a config value of type {type(value).__name__} has no canonical text; "
            "use numbers, text, True, False or None."
        )
    return {f"{type(value).__module__}.{type(value).__qualname__}": text}


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), default=_encode_other
)
