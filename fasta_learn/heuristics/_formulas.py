"""Derived features of a matrix product, each written once.

A formula is a Python expression over the raw features of a log. Training evaluates it
on whole columns, generated code holds the same text for one product, and torch
computes the same value under the same name (`pad_mm_operations` and `mm_operations`
in torch/_inductor/autoheuristic/autoheuristic_utils.py, torch 2.11 to 2.13).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

_Columns = Mapping[str, Any]
# Expressions are constants of this module; they need no builtin but these.
_BUILTINS: dict[str, Any] = {"__builtins__": {}}


@lru_cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<formula>", "eval")


@dataclass(frozen=True)
class Formula:
    """A derived feature.

    Parameters
    ----------
    name : str
        Name of the feature, as torch's context has it.
    expression : str
        Python expression over raw features by name. Categories in it are text: the
        data type is ``"torch.bfloat16"``.
    categorical : bool, default=False
        Whether the value is True or False and acts as a category.
    on_columns : callable, default=None
        The same on a mapping of names to arrays, where the expression itself can't
        be evaluated on arrays.
    """

    name: str
    expression: str
    categorical: bool = False
    on_columns: Callable[[_Columns], np.ndarray] | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the raw features in the expression."""
        return _compiled(self.expression).co_names

    def of_row(self, row: Mapping[str, Any]) -> Any:
        """Evaluate on one product.

        Parameters
        ----------
        row : mapping of str to int, float or str
            Raw features.

        Returns
        -------
        bool, int or float
            The value that torch computes.
        """
        return eval(_compiled(self.expression), dict(_BUILTINS), row)

    def of_columns(self, columns: _Columns) -> np.ndarray:
        """Evaluate on many products.

        Parameters
        ----------
        columns : mapping of str to ndarray of shape (n_rows,)
            Raw features: numbers as int64 or float64, categories as text.

        Returns
        -------
        ndarray of shape (n_rows,)
            The values; bool for a categorical formula.
        """
        with np.errstate(all="ignore"):
            if self.on_columns is not None:
                return self.on_columns(columns)
            code = _compiled(self.expression)
            return np.asarray(eval(code, dict(_BUILTINS), columns))


def _arithmetic_intensity(columns: _Columns) -> np.ndarray:
    m, k, n = columns["m"], columns["k"], columns["n"]
    product = m * k * n
    return np.where(product != 0, product / (m * k + k * n + m * n), 0.0)


_MULTIPLIED = (
    Formula("m*k", "m * k"),
    Formula("m*n", "m * n"),
    Formula("k*n", "k * n"),
)
_ARITHMETIC_INTENSITY = Formula(
    "arith_intensity",
    "m * k * n / (m * k + k * n + m * n) if m * k * n != 0 else 0.0",
    on_columns=_arithmetic_intensity,
)
_NEEDS_PADDING = (
    Formula(
        "mat1_innermost_needs_padding",
        "(mat1_stride_0 == 1) & (m_padded_length != 0)"
        " | (mat1_stride_1 == 1) & (k_padded_length != 0)",
        categorical=True,
    ),
    Formula(
        "mat2_innermost_needs_padding",
        "(mat2_stride_0 == 1) & (k_padded_length != 0)"
        " | (mat2_stride_1 == 1) & (n_padded_length != 0)",
        categorical=True,
    ),
    # Multiplied by one, because adding arrays of bool does not count them.
    Formula(
        "num_dims_needs_padding",
        "1 * (m_padded_length != 0) + 1 * (k_padded_length != 0)"
        " + 1 * (n_padded_length != 0)",
    ),
)
_MULTIPLES = tuple(
    Formula(f"{size}_multiple_{factor}", f"{size} % {factor} == 0", categorical=True)
    for size in ("m", "k", "n")
    for factor in (2, 4, 8, 16, 32)
)
_CONTIGUOUS = (
    Formula(
        "mat1_iscontig", "(mat1_stride_0 == k) & (mat1_stride_1 == 1)", categorical=True
    ),
    Formula(
        "mat2_iscontig", "(mat2_stride_0 == n) & (mat2_stride_1 == 1)", categorical=True
    ),
)

# By heuristic, in the order in which torch adds them.
FORMULAS: dict[str, tuple[Formula, ...]] = {
    "pad_mm": (
        *_MULTIPLIED,
        Formula("k/(m*n)", "k / (m * n)"),
        Formula(
            "bfloat_perf_hit",
            "(k > m * 1024) & (k > n * 1024) & (mat1_dtype == 'torch.bfloat16')",
            categorical=True,
        ),
        _ARITHMETIC_INTENSITY,
        *_NEEDS_PADDING,
        *_MULTIPLES,
        *_CONTIGUOUS,
    ),
    "mm": (*_MULTIPLIED, _ARITHMETIC_INTENSITY),
}

PAD_NUMERICAL = (
    "m",
    "k",
    "n",
    "mat1_stride_0",
    "mat1_stride_1",
    "mat2_stride_0",
    "mat2_stride_1",
    "m_padded_length",
    "k_padded_length",
    "n_padded_length",
    "mat1_align_size",
    "mat2_align_size",
)
PAD_CATEGORICAL = (
    "mat1_dtype",
    "mat2_dtype",
    "prepadded_mat1",
    "prepadded_mat2",
    "using_tf32",
)
_SIZES = ("m", "k", "n")
# Up to here float64 holds every integer, so dividing arrays rounds as Python does.
_EXACT = 2.0**53


def derive(
    columns: dict[str, np.ndarray], formulas: tuple[Formula, ...]
) -> dict[str, np.ndarray]:
    """Evaluate formulas on many products, exactly as Python would on each.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Raw features: numbers as int64 or float64, categories as text. NaN is a
        missing number.
    formulas : tuple of Formula
        What to derive.

    Returns
    -------
    dict of str to ndarray of shape (n_rows,)
        Derived features by name: float64, or bool for categories. A number that
        can't be computed is NaN or infinite.
    """
    derived = {formula.name: formula.of_columns(columns) for formula in formulas}
    derived = {
        formula.name: derived[formula.name].astype(
            bool if formula.categorical else np.float64
        )
        for formula in formulas
    }
    # Products of huge sizes overflow 64 bits; Python's integers do not.
    for index in np.flatnonzero(_is_huge(columns)):
        row = {name: _as_python(column[index]) for name, column in columns.items()}
        for formula in formulas:
            derived[formula.name][index] = _of_row(formula, row)
    return derived


def _is_huge(columns: dict[str, np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        volume = np.prod(
            [np.abs(columns[size].astype(np.float64)).clip(1.0) for size in _SIZES],
            axis=0,
        )
    # Infinite and missing sizes have no value that Python would do better at.
    return np.asarray((volume >= _EXACT) & (volume < np.inf))


def _as_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _of_row(formula: Formula, row: Mapping[str, Any]) -> Any:
    try:
        return formula.of_row(row)
    except ZeroDivisionError:
        return np.nan
