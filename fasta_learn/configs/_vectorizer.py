"""Turn configs into a matrix of features."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from fasta_learn._compat import (
    StrOptions,
    _check_feature_names_in,
    _fit_context,
    validate_data,
)
from fasta_learn.configs._keys import configs_to_dicts
from fasta_learn.configs._log2 import choose_log2, octave_floor
from fasta_learn.configs._tables import (
    category_values,
    check_finite_matrix,
    frame_to_configs,
    holds_configs,
    is_named_frame,
    kind_of,
    number_column,
)

NEVER_FEATURES = (
    "compile_mode",
    "multibuffer",
    "split_k",
    "remain_programs",
    "using_programs",
)
# A keyword, or the index in a matrix, and the category that the column is about.
_Column = tuple[Any, str | None]


class ConfigVectorizer(TransformerMixin, BaseEstimator):
    """Turn configs into a dense matrix with one column for each varying keyword.

    Features are found, not listed: every keyword that is a number in the pool is
    a candidate, 0 stands where a config lacks it or has None, and the columns that are
    constant over the pool are left out. No column at all is a legal outcome.

    Parameters
    ----------
    log2 : bool, "auto" or list of str, default=False
        Which numeric columns are replaced by their base-two logarithm: none, all,
        those that act by ratio, or those named. "auto" takes a column without
        negative values whose largest value is at least 8 times its smallest
        positive one, or at least 4 times if all positive values are powers of
        two: tile sizes and warps, but not stages 1 to 5, flags or numbered
        methods. Zero, which has no logarithm, comes one octave below the smallest
        positive value of the pool, and so does anything lower.
    ignore : tuple or list of str, default=("compile_mode", "multibuffer", \
            "split_k", "remain_programs", "using_programs")
        Keywords that are never features.
    boolean : bool, default=False
        Whether keywords that are True or False become columns of 1 and 0.
    categorical : bool, default=False
        Whether keywords with values that are no numbers become one column
        ``name=value`` for each value of the pool, 1 where the config has it.

    Attributes
    ----------
    n_features_in_ : int
        Number of keywords, or of columns of a matrix, that `fit` saw.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names that `fit` saw. Defined only if X was a frame whose column
        names are all text.
    log2_features_ : list of str
        Output columns that hold logarithms.

    See Also
    --------
    ConfigPruner : Drops configs that are not worth a measurement.

    Notes
    -----
    The columns of configs and of frames are sorted by name, those of a matrix
    keep their order. A keyword with numbers in some configs and text in others
    counts as categorical. In a config that was not in the pool, unknown keywords are
    left out and an unknown category gives 0 in all columns of its keyword.

    Examples
    --------
    >>> from fasta_learn.configs import ConfigVectorizer
    >>> configs = [
    ...     {"BLOCK_M": 32, "num_warps": 4, "num_stages": 2},
    ...     {"BLOCK_M": 256, "num_warps": 4, "num_stages": 3},
    ... ]
    >>> vectorizer = ConfigVectorizer(log2="auto")
    >>> vectorizer.fit_transform(configs)
    array([[5., 2.],
           [8., 3.]])
    >>> vectorizer.get_feature_names_out()
    array(['BLOCK_M', 'num_stages'], dtype=object)
    >>> vectorizer.inverse_transform([[8.0, 3.0]])
    [{'BLOCK_M': 256, 'num_warps': 4, 'num_stages': 3}]
    """

    _parameter_constraints: dict[str, Any] = {
        "log2": ["boolean", StrOptions({"auto"}), list, tuple],
        "ignore": [list, tuple],
        "boolean": ["boolean"],
        "categorical": ["boolean"],
    }

    def __init__(
        self,
        log2: bool | str | Sequence[str] = False,
        *,
        ignore: Sequence[str] = NEVER_FEATURES,
        boolean: bool = False,
        categorical: bool = False,
    ):
        self.log2 = log2
        self.ignore = ignore
        self.boolean = boolean
        self.categorical = categorical

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "ConfigVectorizer":
        """Find the columns of a pool.

        Parameters
        ----------
        X : list of configs, frame, or array-like of shape (n_configs, n_features)
            The pool. Configs are dicts or objects with ``kwargs``; a frame has a
            row for each config and a column for each keyword.
        y : object, default=None
            Ignored.

        Returns
        -------
        ConfigVectorizer
            The fitted vectorizer.

        Raises
        ------
        TypeError
            An item of X is no config.
        ValueError
            X is empty, or a value is not finite; the message says where. A column
            to be replaced by its logarithm is negative or unknown.
        """
        find = self._find_in_configs if holds_configs(X) else self._find_in_matrix
        values, columns, names = find(X)
        keep = np.flatnonzero(values.min(axis=0) < values.max(axis=0))
        values = values[:, keep]
        self._columns = [columns[j] for j in keep]
        self._names_out = [names[j] for j in keep]
        numeric = np.array([category is None for _, category in self._columns], bool)
        logged = choose_log2(values, self._names_out, numeric, self.log2, set(names))
        self._floors = octave_floor(values, logged)
        self.log2_features_ = [self._names_out[j] for j in np.flatnonzero(logged)]
        self._rows = self._apply_log2(values)
        return self

    def _find_in_configs(self, X: Any) -> tuple[np.ndarray, list[_Column], list[str]]:
        validate_data(self, X, skip_check_array=True)
        self._pool: Any = frame_to_configs(X) if is_named_frame(X) else list(X)
        configs = configs_to_dicts(self._pool)
        keywords = sorted({name for config in configs for name in config})
        if not is_named_frame(X):
            self.n_features_in_ = len(keywords)
        columns = [
            column
            for name in keywords
            if name not in self.ignore
            for column in self._columns_of(configs, name)
        ]
        names = [n if c is None else f"{n}={c}" for n, c in columns]
        return _encode(configs, columns), columns, names

    def _columns_of(self, configs: list[dict[str, Any]], name: str) -> list[_Column]:
        kind = kind_of(configs, name)
        if kind == "number" or (kind == "boolean" and self.boolean):
            return [(name, None)]
        if kind == "category" and self.categorical:
            values = set(category_values(configs, name)) - {None}
            return [(name, value) for value in sorted(values)]
        return []

    def _find_in_matrix(self, X: Any) -> tuple[np.ndarray, list[_Column], list[str]]:
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite=False)
        check_finite_matrix(X)
        # The caller may reuse the array; the pool's rows must stay as they were.
        self._pool = X.copy()
        names = _check_feature_names_in(self)
        used = [i for i, name in enumerate(names) if name not in self.ignore]
        return X[:, used], [(i, None) for i in used], [names[i] for i in used]

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of configs.

        Parameters
        ----------
        X : list of configs, frame, or array-like of shape (n_configs, n_features)
            Configs of the pool or others.

        Returns
        -------
        ndarray of shape (n_configs, n_features_out)
            The features as float64.

        Raises
        ------
        TypeError
            An item of X is no config.
        ValueError
            X is a matrix and the pool was not, or the reverse; or a value is not
            a finite number.
        """
        check_is_fitted(self)
        if not self._fitted_on_matrix:
            values = _encode(self._read_configs(X), self._columns)
        else:
            X = self._read_matrix(X)
            values = X[:, [index for index, _ in self._columns]]
        return self._apply_log2(values)

    @property
    def _fitted_on_matrix(self) -> bool:
        return isinstance(self._pool, np.ndarray)

    def _read_configs(self, X: Any) -> list[dict[str, Any]]:
        if not holds_configs(X):
            if not hasattr(self, "feature_names_in_"):
                raise ValueError(
                    "X is a matrix, but the vectorizer was fitted on configs with "
                    "named parameters; pass configs."
                )
            names = self.feature_names_in_
            rows = self._read_matrix(X).tolist()
            return [dict(zip(names, row, strict=True)) for row in rows]
        if is_named_frame(X):
            if hasattr(self, "feature_names_in_"):
                validate_data(self, X, reset=False, skip_check_array=True)
            return frame_to_configs(X)
        return configs_to_dicts(X)

    def _read_matrix(self, X: Any) -> np.ndarray:
        if not is_named_frame(X) and holds_configs(X):
            raise ValueError(
                "X holds configs with named parameters, but the vectorizer was "
                "fitted on a matrix; pass a matrix with the same columns."
            )
        matrix: NDArray[np.float64] = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite=False
        )
        check_finite_matrix(matrix)
        return matrix

    def _apply_log2(self, values: np.ndarray) -> np.ndarray:
        logged = ~np.isnan(self._floors)
        values[:, logged] = np.log2(np.maximum(values[:, logged], self._floors[logged]))
        return values

    def inverse_transform(self, X: Any) -> Any:
        """Return the configs of the pool that have the given features.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features_out)
            Rows as `transform` gives them. Each may be off by rounding, up to one
            millionth of a column's range.

        Returns
        -------
        list of config, or ndarray of shape (n_rows, `n_features_in_`)
            The pool's own objects (for a frame: dicts; for a matrix: its rows).
            Where several configs have the same features, the first of them.

        Raises
        ------
        ValueError
            A row is no config of the pool; the message gives its number.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64, ensure_min_features=0)
        if X.shape[1] != self._rows.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the vectorizer gives "
                f"{self._rows.shape[1]}."
            )
        first: dict[bytes, int] = {}
        for index, row in enumerate(self._rows):
            first.setdefault(row.tobytes(), index)
        found = [first.get(row.tobytes()) for row in X]
        indices = [
            self._nearest(X[i], i) if index is None else index
            for i, index in enumerate(found)
        ]
        if isinstance(self._pool, np.ndarray):
            return self._pool[indices]
        return [self._pool[index] for index in indices]

    def _nearest(self, row: np.ndarray, number: int) -> int:
        span = np.ptp(self._rows, axis=0)
        distance = np.max(np.abs(self._rows - row) / span, axis=1)
        index = int(np.argmin(distance))
        if distance[index] > 1e-6:
            raise ValueError(
                f"row {number} of X is no config of the pool: {row.tolist()}; "
                f"the nearest is {self._rows[index].tolist()} (configs[{index}])."
            )
        return index

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns, for a pool that is a matrix. Names of a
            frame must be those that `fit` saw; for configs they are ignored.

        Returns
        -------
        ndarray of shape (n_features_out,), dtype object
            Keywords, or ``keyword=value`` for categories.

        Raises
        ------
        ValueError
            `input_features` has another length or other names than in `fit`.
        """
        check_is_fitted(self)
        if self._fitted_on_matrix:
            names: NDArray[np.object_] = _check_feature_names_in(self, input_features)
            return names[[index for index, _ in self._columns]]
        if hasattr(self, "feature_names_in_"):
            _check_feature_names_in(self, input_features)
        return np.array(self._names_out, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Declare that the input may be dicts as well as a matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        return tags


def _encode(configs: Sequence[Mapping[str, Any]], columns: list[_Column]) -> np.ndarray:
    """Fill a matrix: the number of a keyword, or whether it has a category."""
    values = np.empty((len(configs), len(columns)))
    texts: dict[str, np.ndarray] = {}
    for j, (name, category) in enumerate(columns):
        if category is None:
            values[:, j] = number_column(configs, name)
            continue
        if name not in texts:
            texts = {name: category_values(configs, name)}
        values[:, j] = texts[name] == category
    return values
