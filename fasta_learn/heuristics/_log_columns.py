"""Categories of a log as text, whatever type a frame gives them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def text_index(texts: Sequence[str]) -> pd.Index:
    """Return texts as an index of one type, also if there are none.

    Parameters
    ----------
    texts : sequence of str
        The texts.

    Returns
    -------
    Index of shape (n_texts,)
        The same, of the type that pandas has for text.
    """
    return pd.Index(texts, dtype=str)


def text_column(frame: pd.DataFrame, name: str) -> Any:
    """Return a column as torch's generated code compares it: by the text of values.

    Parameters
    ----------
    frame : DataFrame
        The frame.
    name : str
        The column; it may be missing.

    Returns
    -------
    Categorical of shape (n_rows,)
        Texts with sorted categories; missing values are missing.
    """
    if name not in frame.columns:
        return pd.Categorical.from_codes(np.full(len(frame), -1), text_index([""]))
    values = frame[name]
    if not isinstance(values.dtype, pd.CategoricalDtype):
        values = values.map(str, na_action="ignore").astype("category")
    texts = [str(value) for value in values.cat.categories]
    merged = sorted(set(texts))
    # Behind the texts stands the place of a missing value, whose code is -1.
    places = np.array([*map(merged.index, texts), -1])
    return pd.Categorical.from_codes(places[values.cat.codes], text_index(merged))
