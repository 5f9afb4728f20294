"""The one place that imports scikit-learn's private names and optional extras."""

import importlib
from types import ModuleType

from sklearn.base import _fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    _num_features,
    validate_data,
)

from fasta_learn.exceptions import MissingExtraError

try:
    import cloudpickle  # type: ignore[import-untyped]
except ImportError:  # joblib depends on it since 1.6, and carried a copy before
    from joblib.externals import cloudpickle

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "_check_feature_names_in",
    "_check_sample_weight",
    "_fit_context",
    "_num_features",
    "cloudpickle",
    "import_extra",
    "validate_data",
    "validate_params",
]


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an optional extra.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    extra : str
        The extra of fasta_learn that installs it.

    Returns
    -------
    ModuleType
        The imported module.

    Raises
    ------
    MissingExtraError
        The module is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} could not be imported ({error}); "
            f"install it by: pip install 'fasta-learn[{extra}]'."
        ) from error
