"""Configs as columns of numbers."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from fasta_learn.configs._keys import is_config


def is_named_frame(X: Any) -> bool:
    """Tell whether X is a pandas or polars frame whose columns have text names.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    bool
        True for such a frame.
    """
    columns = getattr(X, "columns", None)
    return (
        columns is not None
        and hasattr(X, "dtypes")
        and all(isinstance(name, str) for name in columns)
    )


def holds_configs(X: Any) -> bool:
    """Tell whether X is a sequence of configs or a frame, not a matrix.

    Parameters
    ----------
    X : object
        The input of an estimator.

    Returns
    -------
    bool
        True if the parameters have names; also for a sequence of things that are
        neither configs nor rows, so that the error is about configs.

    Raises
    ------
    TypeError
        X is a single config.
    ValueError
        X is an empty sequence.
    """
    if is_named_frame(X):
        return True
    if issparse(X):
        # One of SciPy's formats is a dict; validation refuses all of them.
        return False
    if is_config(X):
        raise TypeError("X is a single config; pass a list of configs.")
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype == object and len(X) > 0
    if not isinstance(X, Sequence) or isinstance(X, str):
        return False
    if not X:
        raise ValueError("X holds no config; a pool needs at least one.")
    is_row = isinstance(X[0], (Sequence, np.ndarray, Real)) and type(X[0]) is not str
    return is_config(X[0]) or not is_row


def frame_to_configs(X: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts of Python values.

    Parameters
    ----------
    X : pandas.DataFrame or polars.DataFrame
        One row a config. Nulls are missing keywords; so is NaN in a column of
        text, where pandas has no other null, but not in one of numbers.

    Returns
    -------
    list of dict
        One dict for each row, without the missing keywords.

    Raises
    ------
    ValueError
        Two columns have the same name, or there are no rows.
    """
    names = list(X.columns)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"X has several columns of the same name: {twice}.")
    if len(X) == 0:
        raise ValueError("X has no rows; a pool needs at least one config.")
    if not names:
        return [{} for _ in range(len(X))]
    columns = [_column_values(X[name]) for name in names]
    return [
        {
            name: value
            for name, value in zip(names, row, strict=True)
            if value is not None and value is not pd.NA
        }
        for row in zip(*columns, strict=True)
    ]


def _column_values(column: Any) -> list[Any]:
    if isinstance(column, pd.Series) and not pd.api.types.is_numeric_dtype(column):
        column = column.astype(object).where(column.notna(), None)
    values: list[Any] = column.to_list()
    return values


def kind_of(configs: Sequence[Mapping[str, Any]], name: str) -> str:
    """Classify a keyword by the values that it has over a pool.

    Parameters
    ----------
    configs : sequence of dict
        The pool.
    name : str
        The keyword.

    Returns
    -------
    {"number", "boolean", "category", "none"}
        "number" if all values are real numbers (bools among them count as 0 and
        1), "boolean" if all are bools, "category" if there are others; None is no
        value, and "none" says that there are no values.
    """
    types = {type(config.get(name)) for config in configs} - {type(None)}
    if not types:
        return "none"
    if types == {bool}:
        return "boolean"
    return "number" if all(issubclass(t, Real) for t in types) else "category"


def number_column(configs: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Return the values of a numeric or boolean keyword.

    Parameters
    ----------
    configs : sequence of dict
        The configs.
    name : str
        The keyword; where it is missing or None, its value is 0.

    Returns
    -------
    ndarray of shape (n_configs,)
        The values as float64.

    Raises
    ------
    ValueError
        A value is not a finite number; the message says which.
    """
    values = [config.get(name) for config in configs]
    column = np.array([_as_float(value) for value in values])
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise ValueError(
            f"configs[{bad[0]}][{name!r}] is {values[bad[0]]!r}, which is not a finite "
            "number; leave the keyword out where it has no value, or add it to "
            "`ignore`."
        )
    return column


def _as_float(value: Any) -> float:
    if value is None:
        return 0.0
    if type(value) not in (int, float) and not isinstance(value, Real):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf


def category_values(configs: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Return the values of a categorical keyword as text.

    Parameters
    ----------
    configs : sequence of dict
        The configs.
    name : str
        The keyword.

    Returns
    -------
    ndarray of shape (n_configs,), dtype object
        ``str`` of the values; None where the keyword is missing or None.
    """
    values = [config.get(name) for config in configs]
    texts = [None if value is None else str(value) for value in values]
    return np.array(texts, dtype=object)


def check_finite_matrix(X: np.ndarray) -> None:
    """Refuse NaN and infinity in a matrix, with their position.

    Parameters
    ----------
    X : ndarray of shape (n_configs, n_features)
        The matrix.

    Raises
    ------
    ValueError
        There is one; the message gives row and column.
    """
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        what = "NaN" if np.isnan(X[row, column]) else "inf (infinity)"
        raise ValueError(
            f"Input X contains {what} in row {row}, column {column}; "
            "features of configs must be finite."
        )
