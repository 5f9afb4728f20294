"""Configs as people read them."""

from collections.abc import Mapping
from typing import Any

from fasta_learn.configs._keys import LAUNCH_OPTIONS


def format_config(config: Mapping[str, Any]) -> str:
    """Return a config as keyword arguments.

    Parameters
    ----------
    config : mapping of str to object
        The config.

    Returns
    -------
    str
        Such as "BLOCK=64, num_warps=4".
    """
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def format_launch(config: Mapping[str, Any]) -> str:
    """Return a config as the ``triton.Config`` that it is, to be copied into code.

    Parameters
    ----------
    config : mapping of str to object
        The config.

    Returns
    -------
    str
        Such as "triton.Config({'BLOCK': 64}, num_warps=4)".
    """
    options = {n: v for n, v in config.items() if n in LAUNCH_OPTIONS}
    keywords = {n: v for n, v in config.items() if n not in LAUNCH_OPTIONS}
    arguments = [repr(keywords), *([format_config(options)] if options else [])]
    return f"triton.Config({', '.join(arguments)})"
