"""Pools from ranges of parameters and constraints between them."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Self, overload

import numpy as np
from sklearn.utils import check_random_state

from fasta_learn.configs._ascend_tiles import ascend_space
from fasta_learn.configs._constraint_text import compile_constraint
from fasta_learn.configs._keys import config_key, config_to_dict
from fasta_learn.configs._pool_table import duplicates

_Check = Callable[[dict[str, Any]], bool]
Constraint = str | _Check


class TileSpace(Sequence[dict[str, Any]]):
    """All combinations of parameter values that satisfy the constraints.

    It is a sequence of configs: it can be passed wherever a list of dicts can.

    Parameters
    ----------
    parameters : mapping of str to sequence
        The values of each parameter, each once. `powers_of_two` makes the common ones.
    constraints : sequence of (str or callable), default=()
        What a config must satisfy. A text is a condition on the parameters, such as
        ``"BLOCK_M * BLOCK_N <= 16384"``: numbers, text, arithmetic, comparisons,
        ``and``, ``or``, ``not``, ``in``, ``... if ... else ...``, ``abs``, ``min``,
        ``max``. A callable takes the config as a dict and tells whether it fits.

    Attributes
    ----------
    parameters : dict of str to list
        The parameters.
    constraints : list
        The constraints.
    n_combinations : int
        How many combinations there are without the constraints.

    Raises
    ------
    TypeError
        Values are no sequence, or a constraint is neither text nor callable.
    ValueError
        A parameter has no value or one twice, a text names something that is no
        parameter or is no condition, a constraint fails, or no config is left.

    See Also
    --------
    ConfigPruner : Removes configs that can't be fast from a list.

    Notes
    -----
    The configs are in the order of nested loops, the first parameter outermost. The
    text of a constraint is not run as Python code; it can reach nothing but the
    parameters.

    Examples
    --------
    >>> from fasta_learn.configs import TileSpace
    >>> space = TileSpace(
    ...     {"BLOCK": TileSpace.powers_of_two(32, 128), "num_warps": [1, 4]},
    ...     constraints=["BLOCK >= 32 * num_warps"],
    ... )
    >>> list(space)  # doctest: +NORMALIZE_WHITESPACE
    [{'BLOCK': 32, 'num_warps': 1}, {'BLOCK': 64, 'num_warps': 1},
     {'BLOCK': 128, 'num_warps': 1}, {'BLOCK': 128, 'num_warps': 4}]
    """

    def __init__(
        self,
        parameters: Mapping[str, Iterable[Any]],
        *,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.parameters = _checked_parameters(parameters)
        self.constraints = _checked_constraints(constraints)
        checks = [_as_check(item, self.parameters) for item in self.constraints]
        # How many combinations each is the first to exclude.
        excluded = [0] * len(checks)
        self._rows = []
        for row in itertools.product(*self.parameters.values()):
            failed = _first_failed(checks, self._config(row))
            if failed is None:
                self._rows.append(row)
            else:
                excluded[failed] += 1
        if not self._rows:
            raise ValueError(self._why_empty(excluded))

    @staticmethod
    def powers_of_two(low: int, high: int) -> list[int]:
        """Return the powers of two between two of them.

        Parameters
        ----------
        low : int
            The first, a power of two.
        high : int
            The last, a power of two.

        Returns
        -------
        list of int
            ``low``, ``2 * low``, ..., ``high``.

        Raises
        ------
        ValueError
            One is no power of two, or `high` is below `low`.

        Examples
        --------
        >>> from fasta_learn.configs import TileSpace
        >>> TileSpace.powers_of_two(16, 128)
        [16, 32, 64, 128]
        """
        for name, value in (("low", low), ("high", high)):
            is_whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not is_whole or value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, got {value!r}.")
        if high < low:
            raise ValueError(f"high must be at least low = {low}, got {high}.")
        first, last = int(low).bit_length(), int(high).bit_length()
        return [1 << exponent for exponent in range(first - 1, last)]

    @classmethod
    def ascend(
        cls,
        axes: Mapping[str, int],
        dtype: Any = "float32",
        ub_bytes: int = 192 * 1024,
        cores: int = 48,
        *,
        n_tensors: int = 2,
        persistent: bool = False,
        multibuffer: bool = True,
        constraints: Sequence[Constraint] = (),
    ) -> Self:
        """Return the tiles of a pointwise or reducing kernel for an Ascend NPU.

        A program does a block of each axis that is not reduced (``X0BLOCK``), in loops
        of a sub-block of each axis (``X0BLOCK_SUB``), as kernels of torch_npu do.

        Parameters
        ----------
        axes : mapping of str to int
            Name and size of one to three axes, the innermost last. Those whose names
            begin with ``r`` are reduced.
        dtype : str, numpy.dtype or torch.dtype, default="float32"
            Type of the elements.
        ub_bytes : int, default=196608
            Size of a core's unified buffer, in bytes; the default is that of an
            Ascend 910B.
        cores : int, default=48
            Number of vector cores.
        n_tensors : int, default=2
            How many tiles of the sub-blocks' size are in the unified buffer at a time,
            inputs, outputs and what is computed in between.
        persistent : bool, default=False
            Whether a reduced axis is one sub-block.
        multibuffer : bool, default=True
            Whether there are configs with multi-buffering, and twice the tiles.
        constraints : sequence of (str or callable), default=()
            Further ones.

        Returns
        -------
        TileSpace
            Its constraints tell the limits: tiles fit the unified buffer, sub-blocks
            their blocks; programs are at least half as many as cores (an eighth for
            fewer than 131,072 elements), or as many as there can be, and at most twice
            as many.

        Raises
        ------
        ValueError
            A value is out of its range, or no tile fits the unified buffer.

        Notes
        -----
        Blocks are chosen by the number of programs: ``cores``, twice of it, a half, a
        quarter ... Sub-blocks are powers of two and the whole axis. Sizes are multiples
        of 32 bytes, or smaller than that; those of the innermost axis have at least 32
        bytes. What the compiler needs besides is found out by measuring.

        Examples
        --------
        >>> from fasta_learn.configs import TileSpace
        >>> space = TileSpace.ascend({"x0": 4096, "r1": 1024}, persistent=True)
        >>> len(space), space[0]  # doctest: +NORMALIZE_WHITESPACE
        (27, {'X0BLOCK': 48, 'X0BLOCK_SUB': 1, 'R1BLOCK_SUB': 1024,
         'multibuffer': False})
        """
        parameters, limits = ascend_space(
            axes,
            dtype,
            ub_bytes,
            cores,
            n_tensors=n_tensors,
            persistent=persistent,
            multibuffer=multibuffer,
        )
        return cls(parameters, constraints=[*limits, *constraints])

    @property
    def n_combinations(self) -> int:
        """How many combinations there are without the constraints."""
        n_combinations = 1
        for values in self.parameters.values():
            n_combinations *= len(values)
        return n_combinations

    def sample(
        self, n: int, random_state: int | np.random.RandomState | None = None
    ) -> list[dict[str, Any]]:
        """Draw configs without replacement.

        Parameters
        ----------
        n : int
            How many, at most as many as there are.
        random_state : int, RandomState or None, default=None
            Decides which.

        Returns
        -------
        list of dict
            The configs, in the order that they have in the space.

        Raises
        ------
        ValueError
            There are fewer configs, or `n` is below 1.
        """
        if not 1 <= n <= len(self):
            raise ValueError(
                f"n must be at least 1 and at most {len(self)}, the number of configs, "
                f"got {n}."
            )
        generator = check_random_state(random_state)
        chosen = generator.choice(len(self), size=n, replace=False)
        return [self[int(index)] for index in np.sort(chosen)]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self._config(row) for row in self._rows[index]]
        return self._config(self._rows[index])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._config, self._rows)

    def __repr__(self) -> str:
        return (
            f"TileSpace(n_configs={len(self)}, n_combinations={self.n_combinations}, "
            f"parameters={list(self.parameters)})"
        )

    def _config(self, row: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.parameters, row, strict=True))

    def _why_empty(self, excluded: Sequence[int]) -> str:
        listed = ", then ".join(
            f"{_name_of(item)} excludes {count}"
            for item, count in zip(self.constraints, excluded, strict=True)
        )
        return (
            f"none of the {self.n_combinations} combinations satisfies the "
            f"constraints: {listed}. Relax one or add values."
        )


def _first_failed(checks: Sequence[_Check], config: dict[str, Any]) -> int | None:
    # Later ones may only make sense if the earlier ones hold.
    return next((i for i, check in enumerate(checks) if not check(config)), None)


def _checked_parameters(parameters: Any) -> dict[str, list[Any]]:
    if not isinstance(parameters, Mapping) or not parameters:
        raise TypeError(
            "parameters must be a dict of at least one name to its values, got "
            f"{parameters!r}."
        )
    return {name: _checked_values(name, v) for name, v in parameters.items()}


def _checked_values(name: Any, values: Any) -> list[Any]:
    if not isinstance(name, str):
        raise TypeError(f"the name of a parameter must be text, got {name!r}.")
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(
            f"the values of {name!r} must be a list, got {values!r}; write "
            f"[{values!r}] for a single value."
        )
    checked = [config_to_dict({name: value})[name] for value in values]
    if not checked:
        raise ValueError(f"the parameter {name!r} has no values; give it at least one.")
    repeated = duplicates(config_key({name: value}) for value in checked)
    if repeated:
        raise ValueError(
            f"the parameter {name!r} has the value {checked[repeated[0][0]]!r} twice."
        )
    return checked


def _checked_constraints(constraints: Any) -> list[Constraint]:
    if isinstance(constraints, str) or callable(constraints):
        raise TypeError(f"constraints must be a list; write [{constraints!r}].")
    checked: list[Constraint] = list(constraints)
    for position, item in enumerate(checked):
        if not isinstance(item, str) and not callable(item):
            raise TypeError(
                f"constraints[{position}] must be text or a callable that takes a "
                f"config, got {item!r}."
            )
    return checked


def _as_check(
    constraint: Constraint, parameters: Mapping[str, Sequence[Any]]
) -> _Check:
    """Return a check that names its constraint if it fails."""
    function: Callable[[dict[str, Any]], Any]
    if isinstance(constraint, str):
        function = compile_constraint(constraint, list(parameters))
    else:
        function = constraint

    def check(config: dict[str, Any]) -> bool:
        try:
            return bool(function(config))
        except Exception as error:
            raise ValueError(
                f"the constraint {_name_of(constraint)} fails for {config}: "
                f"{type(error).__name__}: {error}; the parameters are "
                f"{', '.join(parameters)}."
            ) from error

    return check


def _name_of(constraint: Constraint) -> str:
    if isinstance(constraint, str):
        return repr(constraint)
    return getattr(constraint, "__name__", repr(constraint))
