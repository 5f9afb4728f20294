"""A prior that learns from recorded pools which configs tend to be fast."""

import copy
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fasta_learn.configs import Pool
from fasta_learn.transfer._features import (
    as_matrix,
    pool_columns,
    shares_features,
)
from fasta_learn.transfer._forest import Forest
from fasta_learn.transfer._storage import read_prior, write_prior

Shape = Mapping[str, float]


class PoolPrior:
    """What recorded pools of other kernels, shapes or devices tell about a new one.

    Trees learn from the pools which share of the best speed a config loses. They see
    each keyword by its name, what is derived of the keywords (sizes of the tile and
    of its part per warp, shared memory, inner loops), all of it also relative to the
    median of the pool, and how the tiles fit into the problem if its sizes are given.

    Parameters
    ----------
    n_trees : int, default=200
        Number of trees.
    random_state : int, default=0
        Seed of all chance.

    Attributes
    ----------
    feature_names_ : list of str
        What the trees see, in order.
    n_pools_ : int
        Number of pools that were learned from.
    shape : dict of str to float, or None
        Problem sizes of the pool to predict; see `for_shape`.

    See Also
    --------
    fasta_learn.ActiveConfigSearch : Takes a fitted prior as `prior`.

    Notes
    -----
    The trees are extremely randomised (Geurts et al., "Extremely randomized trees",
    2006) and grown by scikit-learn. A prior is saved as plain arrays, and reading one
    runs no code of the file. Keywords that are not numbers are not looked at.

    Examples
    --------
    >>> from fasta_learn import ActiveConfigSearch
    >>> from fasta_learn.datasets import load_pool
    >>> from fasta_learn.transfer import PoolPrior
    >>> recorded = [load_pool("rmsnorm_3000_1000"), load_pool("xent_2048_50257")]
    >>> shapes = [{"x0": 3000, "r0": 1000}, {"x0": 2048, "r0": 50257}]
    >>> prior = PoolPrior(n_trees=20).fit(recorded, shapes=shapes)
    >>> pool = load_pool("rmsnorm_8192_5120")
    >>> search = ActiveConfigSearch(
    ...     budget=10, prior=prior.for_shape({"x0": 8192, "r0": 5120}), random_state=0
    ... )
    >>> search = search.fit(pool.configs, pool.durations)
    >>> pool.is_catch(search.best_duration_)
    True
    """

    shape: dict[str, float] | None = None

    def __init__(self, *, n_trees: int = 200, random_state: int = 0):
        self.n_trees = n_trees
        self.random_state = random_state

    def __repr__(self) -> str:
        """Tell the parameters, and what was learned."""
        learned = f", n_pools={self.n_pools_}" if hasattr(self, "_forest") else ""
        shape = f", shape={self.shape}" if self.shape else ""
        return (
            f"PoolPrior(n_trees={self.n_trees}, random_state={self.random_state}"
            f"{learned}{shape})"
        )

    def fit(
        self, pools: Sequence[Pool], *, shapes: Sequence[Shape | None] | None = None
    ) -> Self:
        """Learn from recorded pools; each counts the same, however large it is.

        Parameters
        ----------
        pools : sequence of Pool
            The pools. Those in which no config ran are left out.
        shapes : sequence of (dict of str to float, or None), default=None
            Problem sizes of each pool, by the axis that its tile sizes name:
            ``{"m": 512, "n": 512, "k": 64}`` for BLOCK_M, BLOCK_N and BLOCK_K,
            ``{"x0": 4096}`` for X0BLOCK. "batch" is the number of problems, and
            further names (of a device, a data type) become features too.

        Returns
        -------
        Self
            The fitted prior.

        Raises
        ------
        TypeError
            An item of `pools` is no Pool.
        ValueError
            There is nothing to learn from, `shapes` has another length, or a size is
            no finite number.
        """
        self._check_parameters()
        known = _with_shapes(pools, shapes)
        columns = [pool_columns(pool.configs, shape) for pool, shape in known]
        self.feature_names_ = sorted({name for each in columns for name in each})
        self.n_pools_ = len(known)
        sizes = np.array([len(pool) for pool, _ in known])
        self._forest = Forest.grow(
            np.concatenate(
                [
                    as_matrix(each, self.feature_names_, size)
                    for each, size in zip(columns, sizes, strict=True)
                ]
            ),
            np.concatenate([1 - p.best_duration / p.durations for p, _ in known]),
            np.repeat(sizes.mean() / sizes, sizes),
            self.n_trees,
            self.random_state,
        )
        return self

    def for_shape(self, shape: Shape | None) -> "PoolPrior":
        """Return the same prior, for a pool of a kernel with these problem sizes.

        Parameters
        ----------
        shape : dict of str to float, or None
            Problem sizes as in `fit`.

        Returns
        -------
        PoolPrior
            A new object that shares what was learned.

        Raises
        ------
        NotFittedError
            The prior is not fitted.
        ValueError
            A size is no finite number.
        """
        self._check_fitted()
        shaped = copy.copy(self)
        shaped.shape = _check_shape(shape)
        return shaped

    def predict(self, configs: Sequence[Any]) -> NDArray[np.float64]:
        """Predict which share of the best speed of their pool configs lose.

        Parameters
        ----------
        configs : sequence of config
            The whole pool: many features are relative to it.

        Returns
        -------
        ndarray of shape (n_configs,)
            Between 0, as fast as the best, and 1; all 0 if the prior knows no
            feature that differs within the pool.

        Raises
        ------
        NotFittedError
            The prior is not fitted.
        """
        self._check_fitted()
        columns = pool_columns(configs, self.shape)
        if not shares_features(columns, self.feature_names_):
            return np.zeros(len(configs))
        X = as_matrix(columns, self.feature_names_, len(configs))
        return self._forest.predict(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted prior, without its shape, to a file.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if there is one.

        Raises
        ------
        NotFittedError
            The prior is not fitted.
        """
        self._check_fitted()
        facts = {
            "n_trees": int(self.n_trees),
            "random_state": int(self.random_state),
            "n_pools": self.n_pools_,
            "feature_names": self.feature_names_,
        }
        write_prior(path, facts, self._forest)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PoolPrior":
        """Read a prior from a file, which need not be trusted.

        Parameters
        ----------
        path : str or path-like
            A file that `save` wrote.

        Returns
        -------
        PoolPrior
            The fitted prior.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            The file is no prior, is damaged, or is of a later version.
        """
        facts, forest = read_prior(path)
        prior = cls(n_trees=facts["n_trees"], random_state=facts["random_state"])
        prior.n_pools_ = facts["n_pools"]
        prior.feature_names_ = facts["feature_names"]
        prior._forest = forest
        return prior

    def _check_parameters(self) -> None:
        for name, low in (("n_trees", 1), ("random_state", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or not low <= int(value) < 2**32:
                raise ValueError(
                    f"{name} must be an int of at least {low}, got {value!r}."
                )

    def _check_fitted(self) -> None:
        if not hasattr(self, "_forest"):
            raise NotFittedError(
                "This PoolPrior has learned nothing yet; call fit(pools), or read one "
                "by PoolPrior.load(path)."
            )


def _with_shapes(
    pools: Sequence[Pool], shapes: Sequence[Shape | None] | None
) -> list[tuple[Pool, dict[str, float] | None]]:
    """Pools in which a config ran, each with its problem sizes."""
    for i, pool in enumerate(pools):
        if not isinstance(pool, Pool):
            raise TypeError(
                f"pools[{i}] is a {type(pool).__name__}; make a Pool of configs and "
                "durations, or read one by read_pool."
            )
    shapes = [None] * len(pools) if shapes is None else shapes
    if len(shapes) != len(pools):
        raise ValueError(
            f"there are {len(pools)} pools, but {len(shapes)} shapes; give one for "
            "each pool, None where it is not known."
        )
    pairs = zip(pools, map(_check_shape, shapes), strict=True)
    known = [(pool, shape) for pool, shape in pairs if np.isfinite(pool.best_duration)]
    if not known:
        raise ValueError("there is no pool in which a config ran; give some.")
    return known


def _check_shape(shape: Shape | None) -> dict[str, float] | None:
    if shape is None:
        return None
    for name, size in shape.items():
        if not isinstance(size, Real) or not np.isfinite(size):
            raise ValueError(
                f"the size of {name!r} is {size!r}; sizes are finite numbers."
            )
    return {str(name): float(size) for name, size in shape.items()}
