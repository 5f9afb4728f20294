"""Drop configs that are not worth a measurement, before a search."""

import math
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from fasta_learn._compat import Interval, _fit_context
from fasta_learn.configs._keys import config_to_dict
from fasta_learn.configs._tiles import (
    check_named,
    count_circles,
    mark_of,
    sub_blocks,
)
from fasta_learn.exceptions import PruningWarning


class _Tile(NamedTuple):
    position: int
    circles: float
    numel: float
    pattern: tuple[tuple[str, int], ...]


class ConfigPruner(TransformerMixin, BaseEstimator):
    """Drop configs that loop too often, work on too little or repeat others.

    It is meant for the tiled kernels of Ascend NPUs, where a program works through
    its block of an axis (``X0BLOCK``) in sub-blocks (``X0BLOCK_SUB``). Configs
    marked ``from_expert``, by attribute or keyword, always stay. Of the others,
    in this order:

    1. those stay that work through at most `max_circle_num` sub-blocks: the
       product over the axes of block / sub-block, each rounded up, or the
       config's own ``circle_num`` where that is positive;
    2. those stay whose sub-blocks have a product of at least `min_sub_numel`
       (which is 1 without sub-blocks);
    3. of those with the same number of sub-blocks and the same sub-block sizes,
       the first stays;
    4. of more than `max_configs`, that many stay, evenly spaced in the order of
       their product of sub-blocks, the smallest and the largest among them.

    If none would be left at all, all stay, with a warning.

    Parameters
    ----------
    max_circle_num : int, default=4
        Largest number of sub-blocks that a program works through.
    min_sub_numel : int, default=32
        Smallest number of elements of a sub-block.
    max_configs : int, default=50
        Largest number of configs that stay besides those from an expert.

    See Also
    --------
    expand_multibuffer : Doubles the configs that are left.
    ConfigVectorizer : Turns configs into a matrix.

    Notes
    -----
    There is nothing to fit. `transform` returns fewer items than it gets, so in a
    pipeline it can stand before a search that measures by an oracle, but not
    before one that gets recorded durations.

    Examples
    --------
    >>> from fasta_learn.configs import ConfigPruner
    >>> configs = [
    ...     {"XBLOCK": 256, "XBLOCK_SUB": 64},
    ...     {"XBLOCK": 256, "XBLOCK_SUB": 32},
    ...     {"XBLOCK": 64, "XBLOCK_SUB": 16},
    ... ]
    >>> ConfigPruner().fit_transform(configs)
    [{'XBLOCK': 256, 'XBLOCK_SUB': 64}]
    """

    _parameter_constraints: dict[str, Any] = {
        "max_circle_num": [Interval(Real, 1, None, closed="left")],
        "min_sub_numel": [Interval(Real, 0, None, closed="left")],
        "max_configs": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        max_circle_num: int = 4,
        *,
        min_sub_numel: int = 32,
        max_configs: int = 50,
    ):
        self.max_circle_num = max_circle_num
        self.min_sub_numel = min_sub_numel
        self.max_configs = max_configs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable[Any], y: Any = None) -> "ConfigPruner":
        """Check the parameters; nothing is learned.

        Parameters
        ----------
        X : list of configs
            Ignored.
        y : object, default=None
            Ignored.

        Returns
        -------
        ConfigPruner
            The pruner itself.
        """
        return self

    def transform(self, X: Iterable[Any]) -> list[Any]:
        """Return the configs that stay.

        Parameters
        ----------
        X : list of dicts or of objects with ``kwargs``
            The configs.

        Returns
        -------
        list of config
            Those that stay: the objects themselves, in the order of X.

        Raises
        ------
        TypeError
            An item is no config with named parameters.
        ValueError
            The size of a block is no positive number.

        Warns
        -----
        PruningWarning
            No config would be left; X is returned whole.
        """
        configs = check_named(X)
        expert = [bool(mark_of(config, "from_expert")) for config in configs]
        tiles = [
            _measure(configs[i], i) for i, marked in enumerate(expert) if not marked
        ]
        kept = [i for i, marked in enumerate(expert) if marked]
        kept += [tile.position for tile in self._prune(tiles)]
        if configs and not kept:
            warnings.warn(
                f"none of the {len(configs)} configs has circle_num <= "
                f"{self.max_circle_num} and sub_numel >= {self.min_sub_numel}; "
                "all of them are kept.",
                PruningWarning,
                stacklevel=2,
            )
            return configs
        return [configs[i] for i in sorted(kept)]

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> list[Any]:
        """Check the parameters and return the configs that stay.

        Parameters
        ----------
        X : list of dicts or of objects with ``kwargs``
            The configs.
        y : array-like, default=None
            Recorded durations; with these no config may be dropped.

        Returns
        -------
        list of config
            As from `transform`.

        Raises
        ------
        ValueError
            `y` is given and configs would be dropped.
        """
        configs = check_named(X)
        kept: list[Any] = self.fit(configs).transform(configs)
        if y is not None and len(kept) < len(configs):
            raise ValueError(
                f"ConfigPruner keeps {len(kept)} of {len(configs)} configs, but a "
                "transformer can't drop the durations y of the others; prune the "
                "pool before it is recorded, or search with an oracle."
            )
        return kept

    def set_output(self, *, transform: str | None = None) -> "ConfigPruner":
        """Accept the setting for a whole pipeline; the output stays a list.

        Parameters
        ----------
        transform : str, default=None
            Ignored: configs are no columns that a frame could hold.

        Returns
        -------
        ConfigPruner
            The pruner itself.
        """
        return self

    def _prune(self, tiles: list[_Tile]) -> list[_Tile]:
        first: dict[tuple[Any, ...], _Tile] = {}
        for tile in tiles:
            if tile.circles <= self.max_circle_num and tile.numel >= self.min_sub_numel:
                first.setdefault((tile.circles, tile.pattern), tile)
        kept = sorted(first.values(), key=lambda tile: tile.numel)
        if len(kept) <= self.max_configs:
            return kept
        return [kept[place] for place in _spread(len(kept), self.max_configs)]

    def __sklearn_tags__(self) -> Tags:
        """Declare that the input is configs and that there is nothing to fit."""
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags


def _measure(config: Any, index: int) -> _Tile:
    parameters = config_to_dict(config)
    where = f"configs[{index}]"
    subs = sub_blocks(parameters, where)
    circles = mark_of(config, "circle_num")
    if not isinstance(circles, Real) or circles <= 0:
        circles = count_circles(parameters, subs, where)
    return _Tile(index, float(circles), math.prod(subs.values()), tuple(subs.items()))


def _spread(n_items: int, n_places: int) -> list[int]:
    """Return evenly spaced positions with both ends, rounded half up."""
    steps = n_places - 1
    return [(2 * i * (n_items - 1) + steps) // (2 * steps) for i in range(n_places)]
