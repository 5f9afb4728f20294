"""The file in which a trained heuristic is kept between two steps."""

import hashlib
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import pandas as pd

from fasta_learn.heuristics import DeviceDescription, LogMetadata

_SIZES = ["m", "k", "n"]


@dataclass(eq=False)
class TrainedModel:
    """A trained heuristic, and what it was learned from.

    Attributes
    ----------
    heuristic : PadHeuristic
        What decides.
    metadata : LogMetadata
        Line 1 of the log.
    device : DeviceDescription or None
        What was measured on, if it is known.
    data_hash : str
        16 hexadecimal digits of what was learned from.
    n_inputs : int
        How many inputs that was.
    shapes : ndarray of shape (n_shapes, 3)
        Their sizes, sorted within a row: what no test may hold.
    metrics : dict of str to float
        How it did on what was held out; empty if nothing was.
    """

    heuristic: Any
    metadata: LogMetadata
    device: DeviceDescription | None
    data_hash: str
    n_inputs: int
    shapes: np.ndarray
    metrics: dict[str, float]

    def is_unseen(self, inputs: pd.DataFrame) -> np.ndarray:
        """Tell which inputs have sizes that were not learned from.

        Parameters
        ----------
        inputs : DataFrame of shape (n_inputs, n_columns)
            Inputs of a log.

        Returns
        -------
        ndarray of shape (n_inputs,)
            True for those.
        """
        seen = set(map(tuple, self.shapes.tolist()))
        return np.array(
            [tuple(row) not in seen for row in sorted_sizes(inputs).tolist()]
        )


def sorted_sizes(inputs: pd.DataFrame) -> np.ndarray:
    """Return the sizes of inputs, such that those of a group are equal.

    Parameters
    ----------
    inputs : DataFrame of shape (n_inputs, n_columns)
        Inputs of a log.

    Returns
    -------
    ndarray of shape (n_inputs, 3)
        Sorted within a row.
    """
    return np.sort(inputs[_SIZES].to_numpy(np.int64), axis=1)


def hash_inputs(inputs: pd.DataFrame) -> str:
    """Return what tells the inputs of logs apart.

    Parameters
    ----------
    inputs : DataFrame of shape (n_inputs, n_columns)
        Inputs of a log.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    return hashlib.sha256(inputs.to_csv(index=False).encode()).hexdigest()[:16]


def save_model(model: TrainedModel, path: str) -> None:
    """Write a model.

    Parameters
    ----------
    model : TrainedModel
        The model.
    path : str
        The file.
    """
    joblib.dump(model, path)


def load_model(path: str) -> TrainedModel:
    """Read a model. Whoever can write the file can run code in this process.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    TrainedModel
        The model.

    Raises
    ------
    OSError, ValueError
        There is none.
    """
    try:
        model = joblib.load(path)
    except OSError:
        raise
    except Exception as error:  # pickle fails in many ways
        raise ValueError(
            f"{path} is no model of 'fasta-learn heuristic train'; train one first."
        ) from error
    if not isinstance(model, TrainedModel):
        raise ValueError(
            f"{path} is no model of 'fasta-learn heuristic train', but a "
            f"{type(model).__name__}; train one first."
        )
    return model
