"""Raw features of a log as the matrix that trees learn from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fasta_learn._compat import StrOptions, _check_feature_names_in, _fit_context
from fasta_learn.heuristics._formulas import (
    FORMULAS,
    PAD_CATEGORICAL,
    PAD_NUMERICAL,
    derive,
)
from fasta_learn.heuristics._log_columns import text_column, text_index

# A feature, and the category that the column is about; None for a number.
Column = tuple[str, str | None]


class PadFeatures(TransformerMixin, BaseEstimator):
    """Turn the raw features of matrix products into the matrix that trees learn from.

    Numbers come first, then a column of 0 and 1 for each value of each category. The
    derived features have the names and values that torch gives them at compile time.

    Parameters
    ----------
    formulas : {"pad_mm", "mm"}, default="pad_mm"
        Which features to derive: the heuristic whose log it is.
    numerical : sequence of str, default=None
        Names of the raw features that are numbers, in the order of the log. None
        takes those of `pad_mm`.
    categorical : sequence of str, default=None
        Names of the raw features that are categories. None takes those of `pad_mm`.

    Attributes
    ----------
    numerical_ : list of str
        Raw and derived features that are numbers.
    categories_ : dict of str to list of str
        For each raw or derived category the values that `fit` saw, sorted.
    columns_ : list of (str, str or None)
        For each output column the feature and the value that it stands for; None
        for a number.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the raw features, in the order of the parameters.
    n_features_in_ : int
        Number of raw features.

    See Also
    --------
    read_log : Reads raw features from a log.

    Notes
    -----
    A product is unsure if a raw feature is missing or not finite, if a category has
    a value that `fit` did not see, or if a derived number can't be computed. `unsure`
    tells which are; `transform` never fails on them: it gives NaN for the number and
    0 in all columns of the category.

    Examples
    --------
    >>> import pandas as pd
    >>> from fasta_learn.heuristics import PadFeatures
    >>> products = pd.DataFrame({"m": [8, 5], "k": [4, 4], "n": [2, 2]})
    >>> products["dtype"] = ["torch.float16", "torch.float32"]
    >>> features = PadFeatures(
    ...     "mm", numerical=["m", "k", "n"], categorical=["dtype"]
    ... ).set_output(transform="pandas")
    >>> features.fit_transform(products)[["m*k", "dtype_torch.float32"]]
        m*k  dtype_torch.float32
    0  32.0                  0.0
    1  20.0                  1.0
    >>> features.unsure(products.assign(dtype="torch.int8")).tolist()
    [True, True]
    """

    _parameter_constraints: dict[str, Any] = {
        "formulas": [StrOptions(set(FORMULAS))],
        "numerical": ["array-like", None],
        "categorical": ["array-like", None],
    }

    def __init__(
        self,
        formulas: str = "pad_mm",
        *,
        numerical: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
    ):
        self.formulas = formulas
        self.numerical = numerical
        self.categorical = categorical

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "PadFeatures":
        """Find the values of the categories.

        Parameters
        ----------
        X : DataFrame of shape (n_products, n_columns)
            Raw features by name; other columns are ignored, so the frame of a log or
            of its inputs will do. A list of dicts is taken too.
        y : object, default=None
            Ignored.

        Returns
        -------
        PadFeatures
            The fitted transformer.

        Raises
        ------
        ValueError
            X is empty, lacks a feature, or has a missing value; the message says
            which.
        """
        names = [*self._raw_numerical(), *self._raw_categorical()]
        frame = _as_frame(X)
        self._check_complete(frame, names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        numbers, texts = self._derived(frame)
        bad = [name for name, values in numbers.items() if not _all_finite(values)]
        if bad:
            row = int(np.flatnonzero(~np.isfinite(numbers[bad[0]]))[0])
            raise ValueError(
                f"{bad[0]} is not a finite number in row {row} of X; leave such rows "
                "out."
            )
        self.numerical_ = list(numbers)
        self.categories_ = {
            name: [str(value) for value in values.categories[np.unique(values.codes)]]
            for name, values in texts.items()
        }
        self.columns_: list[Column] = [(name, None) for name in self.numerical_]
        self.columns_ += [
            (name, value)
            for name, values in self.categories_.items()
            for value in values
        ]
        return self

    def _raw_numerical(self) -> list[str]:
        return list(PAD_NUMERICAL if self.numerical is None else self.numerical)

    def _raw_categorical(self) -> list[str]:
        return list(PAD_CATEGORICAL if self.categorical is None else self.categorical)

    def _check_complete(self, frame: pd.DataFrame, names: list[str]) -> None:
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise ValueError(f"X lacks the features {', '.join(missing)}.")
        needed = {name for formula in FORMULAS[self.formulas] for name in formula.needs}
        if not needed <= set(names):
            lacking = ", ".join(sorted(needed - set(names)))
            raise ValueError(
                f"numerical and categorical lack {lacking}, which the formulas "
                f"{self.formulas!r} need."
            )
        if len(frame) == 0:
            raise ValueError("X has no rows, but at least one is needed.")
        for name in names:
            absent = np.flatnonzero(frame[name].isna())
            if len(absent):
                raise ValueError(f"{name} is missing in row {absent[0]} of X.")

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of products.

        Parameters
        ----------
        X : DataFrame of shape (n_products, n_columns)
            As for `fit`. Features and values may be missing.

        Returns
        -------
        ndarray of shape (n_products, n_features_out)
            The features as float64.
        """
        check_is_fitted(self)
        frame = _as_frame(X)
        numbers, texts = self._derived(frame)
        matrix = np.empty((len(frame), len(self.columns_)))
        for index, (name, value) in enumerate(self.columns_):
            if value is None:
                column = numbers[name]
                matrix[:, index] = np.where(np.isfinite(column), column, np.nan)
            else:
                matrix[:, index] = texts[name] == value
        return matrix

    def unsure(self, X: Any) -> np.ndarray:
        """Tell for which products nothing should be decided.

        Parameters
        ----------
        X : DataFrame of shape (n_products, n_columns)
            As for `transform`.

        Returns
        -------
        ndarray of shape (n_products,)
            True where a feature is missing, can't be computed, or has a value that
            `fit` did not see.
        """
        check_is_fitted(self)
        frame = _as_frame(X)
        numbers, texts = self._derived(frame)
        unsure = np.zeros(len(frame), bool)
        for name in self.numerical_:
            unsure |= ~np.isfinite(numbers[name])
        for name, values in self.categories_.items():
            unsure |= texts[name].set_categories(values).codes < 0
        return unsure

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the raw features, to be checked against those of `fit`.

        Returns
        -------
        ndarray of shape (n_features_out,)
            The feature for a number, ``feature_value`` for a value of a category.

        Raises
        ------
        ValueError
            `input_features` are not those of `fit`.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = [
            name if value is None else f"{name}_{value}"
            for name, value in self.columns_
        ]
        return np.array(names, dtype=object)

    def _derived(
        self, frame: pd.DataFrame
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return raw and derived features: numbers, and categories as text."""
        numbers = {name: _number_column(frame, name) for name in self._raw_numerical()}
        texts = {name: text_column(frame, name) for name in self._raw_categorical()}
        formulas = FORMULAS[self.formulas]
        derived = derive({**numbers, **texts}, formulas)
        for formula in formulas:
            values = derived[formula.name]
            if formula.categorical:
                texts[formula.name] = pd.Categorical.from_codes(
                    values.astype(np.int8), text_index(["False", "True"])
                )
            else:
                numbers[formula.name] = values
        return numbers, texts

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn: the input is a frame with text in it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        return tags


def _as_frame(X: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X
    if isinstance(X, Mapping):
        raise TypeError("X is one mapping; pass a frame, or a list of mappings.")
    if hasattr(X, "to_dict") and hasattr(X, "columns"):
        return pd.DataFrame(X.to_dict(as_series=False))  # polars
    if isinstance(X, Sequence) and all(isinstance(row, Mapping) for row in X):
        return pd.DataFrame(list(X))
    raise TypeError(
        "the features of products are read by name: pass a frame or a list of dicts, "
        f"not {type(X).__name__}."
    )


def _all_finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


def _number_column(frame: pd.DataFrame, name: str) -> np.ndarray:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    values = frame[name]
    if not pd.api.types.is_numeric_dtype(values):
        values = pd.to_numeric(values.astype(object), errors="coerce")
    whole = pd.api.types.is_signed_integer_dtype(values) and not values.hasnans
    if whole:
        return values.to_numpy(np.int64)
    return values.to_numpy(np.float64, na_value=np.nan)
