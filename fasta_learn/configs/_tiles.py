"""Blocks and sub-blocks of configs, as kernels for Ascend NPUs have them.

A program does one block of an axis (``X0BLOCK``) in loops of one sub-block
(``X0BLOCK_SUB``); ``BLOCK_M`` with ``BLOCK_M_SUB`` is the same.
"""

import copy
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from fasta_learn.configs._keys import config_key, is_config


def check_named(configs: Iterable[Any]) -> list[Any]:
    """Return configs as a list, if all have named parameters.

    Parameters
    ----------
    configs : iterable of dict or object with ``kwargs``
        The configs.

    Returns
    -------
    list of config
        The same objects.

    Raises
    ------
    TypeError
        `configs` is a single one, or one is neither a mapping nor an object with
        ``kwargs``.
    """
    if is_config(configs):
        raise TypeError("this is a single config; pass a list of configs.")
    configs = list(configs)
    for index, config in enumerate(configs):
        if not is_config(config):
            raise TypeError(
                f"configs[{index}] is of type {type(config).__name__}; expected a dict "
                "of parameters, or an object with a dict `kwargs` such as "
                "triton.Config."
            )
    return configs


def mark_of(config: Any, name: str) -> Any:
    """Return a mark that a config has as attribute or as keyword.

    Parameters
    ----------
    config : mapping or object with ``kwargs``
        The config.
    name : str
        Name of the mark, such as "from_expert".

    Returns
    -------
    object
        Its value; None if there is none.
    """
    if isinstance(config, Mapping):
        return config.get(name)
    mark = getattr(config, name, None)
    return config.kwargs.get(name) if mark is None else mark


def sub_blocks(config: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return the sub-blocks of a config.

    Parameters
    ----------
    config : mapping
        All parameters.
    where : str
        What to call the config in an error.

    Returns
    -------
    dict of str to int
        Values of the keywords ``<axis>BLOCK_SUB`` and ``BLOCK_<axis>_SUB``, sorted
        by name, without those that are None.

    Raises
    ------
    ValueError
        One of them is no number, or not positive.
    """
    return {
        name: _positive(config[name], name, where)
        for name in sorted(config)
        if _is_sub_block(name) and config[name] is not None
    }


def _is_sub_block(name: str) -> bool:
    block = name.removesuffix("_SUB")
    return block != name and (block.endswith("BLOCK") or block.startswith("BLOCK_"))


def _positive(value: Any, name: str, where: str) -> int:
    number = isinstance(value, Real) and not isinstance(value, bool)
    size: int = value
    if not (number and size > 0):
        raise ValueError(
            f"{where}[{name!r}] is {value!r}; the size of a block must be a "
            "positive number."
        )
    return size


def count_circles(
    config: Mapping[str, Any], subs: Mapping[str, int], where: str
) -> int:
    """Return how many sub-blocks a program works through.

    Parameters
    ----------
    config : mapping
        All parameters.
    subs : mapping of str to int
        Its sub-blocks, as from `sub_blocks`.
    where : str
        What to call the config in an error.

    Returns
    -------
    int
        The product over the axes of block / sub-block, each rounded up. An axis
        without a block counts once.

    Raises
    ------
    ValueError
        A block is no number, or not positive.
    """
    circles = 1
    for name, sub in subs.items():
        block = config.get(name.removesuffix("_SUB"))
        if block is not None:
            block = _positive(block, name.removesuffix("_SUB"), where)
            circles *= -(-block // sub)
    return circles


def expand_multibuffer(configs: Iterable[Any]) -> list[Any]:
    """Double configs into one without and one with multi-buffering.

    Parameters
    ----------
    configs : iterable of dict or object with ``kwargs``
        The configs. They are not changed.

    Returns
    -------
    list of config
        For each config without a keyword ``multibuffer`` two copies, with False
        and with True; the others as they are. Of those equal in their keywords,
        num_warps, num_stages and num_ctas only the first is kept.

    Raises
    ------
    TypeError
        An item is no config with named parameters.

    Examples
    --------
    >>> from fasta_learn.configs import expand_multibuffer
    >>> expand_multibuffer([{"XBLOCK": 64}])
    [{'XBLOCK': 64, 'multibuffer': False}, {'XBLOCK': 64, 'multibuffer': True}]
    """
    kept: dict[tuple[str, ...], Any] = {}
    for config in check_named(configs):
        for variant in _multibuffer_variants(config):
            kept.setdefault(_identity(variant), variant)
    return list(kept.values())


def _multibuffer_variants(config: Any) -> list[Any]:
    keywords = config if isinstance(config, Mapping) else config.kwargs
    if "multibuffer" in keywords:
        return [config]
    return [_with_multibuffer(config, flag) for flag in (False, True)]


def _with_multibuffer(config: Any, flag: bool) -> Any:
    if isinstance(config, Mapping):
        return {**config, "multibuffer": flag}
    variant = copy.copy(config)
    variant.kwargs = {**config.kwargs, "multibuffer": flag}
    return variant


def _identity(config: Any) -> tuple[str, ...]:
    if isinstance(config, Mapping):
        return (config_key(config),)
    options = {
        name: getattr(config, name, None)
        for name in ("num_warps", "num_stages", "num_ctas")
    }
    return config_key(dict(config.kwargs)), config_key(options)
