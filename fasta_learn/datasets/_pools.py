"""Finding and reading the pools that ship with the package."""

import difflib
from dataclasses import replace
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

from fasta_learn.configs import Pool, read_pool

# Each is a folder of pools/: a table and a card for each pool, and one README.md.
COLLECTIONS = ("original", "kernels")


def list_pools(collection: str | None = None) -> list[str]:
    """Return the names of the pools that ship with the package.

    Parameters
    ----------
    collection : {"original", "kernels"} or None, default=None
        Which of the two collections: the 15 pools on which the default search was
        developed, or 45 of other kernels or shapes, recorded later with results
        checked and compile seconds. None means both.

    Returns
    -------
    list of str
        The names, sorted.

    Raises
    ------
    ValueError
        There is no such collection.

    Examples
    --------
    >>> from fasta_learn.datasets import list_pools
    >>> list_pools("original")[:3]
    ['attn_16_4096_128', 'bmm_12_1023_1023_63', 'bmm_96_512_64_512']
    >>> len(list_pools("kernels")), len(list_pools())
    (45, 60)
    """
    if collection is not None and collection not in COLLECTIONS:
        raise ValueError(
            f"there is no collection {collection!r} of pools; collection must be "
            f"{', '.join(map(repr, COLLECTIONS))}, or None for all pools."
        )
    chosen = COLLECTIONS if collection is None else (collection,)
    return sorted(name for folder in chosen for name in _tables(folder))


def load_pool(name: str) -> Pool:
    """Read a pool that ships with the package.

    The configs of these Triton kernels were timed on an NVIDIA H200.

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
    for collection in COLLECTIONS:
        table = _tables(collection).get(name)
        if table is not None:
            return _read(name, table, _folder(collection))
    names = list_pools()
    raise ValueError(
        f"no pool named {name!r} ships with fasta_learn; {_hint(name, names)}"
        f"fasta_learn.datasets.list_pools() names all {len(names)}."
    )


def _read(name: str, table: Traversable, folder: Traversable) -> Pool:
    with as_file(table) as path:
        pool = read_pool(path, name=name)
    texts = (folder / file for file in (f"{name}.md", "README.md"))
    description = "\n".join(text.read_text(encoding="utf-8") for text in texts)
    return replace(pool, description=description)


def _folder(collection: str) -> Traversable:
    return files("fasta_learn.datasets") / "pools" / collection


def _tables(collection: str) -> dict[str, Traversable]:
    """Return the files with the measurements of a collection, by name of the pool."""
    endings = (".csv", ".csv.gz")
    return {
        entry.name.partition(".csv")[0]: entry
        for entry in _folder(collection).iterdir()
        if entry.name.endswith(endings)
    }


def _hint(name: str, names: list[str]) -> str:
    close = [known for known in names if name and name.lower() in known.lower()]
    close = close or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"close to it: {', '.join(close)}; " if close else ""
