"""Finding and reading the pools that ship with the package."""

import difflib
from dataclasses import replace
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

from fasta_learn.configs import Pool, read_pool


def list_pools() -> list[str]:
    """Return the names of the pools that ship with the package.

    Returns
    -------
    list of str
        The names, sorted.

    Examples
    --------
    >>> from fasta_learn.datasets import list_pools
    >>> list_pools()[:3]
    ['attn_16_4096_128', 'bmm_12_1023_1023_63', 'bmm_96_512_64_512']
    """
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name[:-4] for name in names if name.endswith(".csv"))


def load_pool(name: str) -> Pool:
    """Read a pool that ships with the package.

    Every config of these Triton kernels was timed on an NVIDIA H200.

    Parameters
    ----------
    name : str
        One of `list_pools`.

    Returns
    -------
    Pool
        The pool. Its `description` says what was measured and how.

    Raises
    ------
    ValueError
        There is no pool of this name; the message has the closest ones.

    Examples
    --------
    >>> from fasta_learn.datasets import load_pool
    >>> pool = load_pool("mm_2048_2048_2048")
    >>> len(pool)
    200
    >>> print(pool.description.splitlines()[2])
    Matrix product, M = N = K = 2048.
    """
    names = list_pools()
    if name not in names:
        raise ValueError(
            f"no pool named {name!r} ships with fasta_learn; {_hint(name, names)}"
            f"fasta_learn.datasets.list_pools() names all {len(names)}."
        )
    with as_file(_folder() / f"{name}.csv") as path:
        pool = read_pool(path, name=name)
    texts = (_folder() / file for file in (f"{name}.md", "README.md"))
    description = "\n".join(text.read_text(encoding="utf-8") for text in texts)
    return replace(pool, description=description)


def _folder() -> Traversable:
    return files("fasta_learn.datasets") / "pools"


def _hint(name: str, names: list[str]) -> str:
    close = [known for known in names if name and name.lower() in known.lower()]
    close = close or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"close to it: {', '.join(close)}; " if close else ""
