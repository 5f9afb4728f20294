import json

import numpy as np
import pandas as pd
import pytest

from fasta_learn.heuristics import HeuristicLog, LogMetadata

METADATA = LogMetadata("pad_mm", 232448, (9, 0), ("m", "k"), ("mat1_dtype",))
# Written out by hand from what torch 2.13 writes.
LINE = (
    '{"shared_memory": 232448, "device_capa": [9, 0], "name": "pad_mm", '
    '"numerical_features": ["m", "k"], "categorical_features": ["mat1_dtype"]}'
)
VALUES = json.loads(LINE)


def make_frame():
    return pd.DataFrame(
        {
            "m": [8, 8, 16],
            "mat1_dtype": pd.Categorical(["torch.float16"] * 3),
            "k": [1, 1, 2],
            "choice": pd.Categorical(["pad", "orig", "pad"]),
            "feedback": [1.0, np.inf, 2.0],
        }
    )


def test_header_line_is_that_of_torch():
    assert METADATA.header_line() == LINE


def test_from_line_reads_keys_in_any_order():
    line = json.dumps(dict(reversed(VALUES.items())))
    assert LogMetadata.from_line(line) == METADATA


def test_from_line_keeps_further_keys_apart():
    metadata = LogMetadata.from_line(json.dumps({**VALUES, "choices": ["orig"]}))
    assert metadata.extra == {"choices": ["orig"]}
    assert metadata == METADATA
    assert metadata.header_line() == LINE


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m,k,choice,feedback", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1, 2]", "no object"),
        ('{"name": "pad_mm"}', "lacks shared_memory, device_capa"),
        (json.dumps({**VALUES, "name": 3}), "name = 3"),
        (json.dumps({**VALUES, "device_capa": "9.0"}), "device_capa = '9.0'"),
        (json.dumps({**VALUES, "device_capa": [9, None]}), "device_capa"),
        (json.dumps({**VALUES, "shared_memory": True}), "shared_memory = True"),
        (json.dumps({**VALUES, "shared_memory": float("nan")}), "shared_memory = nan"),
        (json.dumps({**VALUES, "numerical_features": "mk"}), "numerical_features"),
        (json.dumps({**VALUES, "categorical_features": [1]}), "categorical_features"),
        (json.dumps({**VALUES, "categorical_features": ["m"]}), "a feature twice"),
        (json.dumps({**VALUES, "numerical_features": ["choice"]}), "a feature twice"),
    ],
)
def test_from_line_says_what_is_wrong(line, message):
    with pytest.raises(ValueError, match=message):
        LogMetadata.from_line(line)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"name": "mm"}, True),
        ({"shared_memory": 166912}, False),
        ({"device_capa": [8, 0]}, False),
    ],
)
def test_same_device_looks_at_memory_and_capability(changes, same):
    other = LogMetadata.from_line(json.dumps({**VALUES, **changes}))
    assert METADATA.same_device(other) is same


def test_differences_ignore_the_order_of_features():
    other = LogMetadata("pad_mm", 232448, (9, 0), ("k", "m"), ("mat1_dtype",))
    assert METADATA.differences(other) == []


def test_differences_name_each():
    other = LogMetadata("mm", 232448, (8, 0), ("m",), ("mat1_dtype", "k"))
    assert METADATA.differences(other) == [
        "name 'pad_mm' and 'mm'",
        "device_capa (9, 0) and (8, 0)",
        "numerical_features (k only in one)",
        "categorical_features (k only in one)",
    ]


def test_log_lists_its_features_in_the_order_of_the_frame():
    assert HeuristicLog(METADATA, make_frame()).features == ["m", "mat1_dtype", "k"]


def test_log_lists_its_choices_sorted():
    assert HeuristicLog(METADATA, make_frame()).choices == ["orig", "pad"]


def test_log_counts_rows_and_failed_ones():
    log = HeuristicLog(METADATA, make_frame())
    assert (len(log), log.n_failed) == (3, 1)


def test_log_gathers_its_inputs():
    assert HeuristicLog(METADATA, make_frame()).inputs()["m"].tolist() == [8, 16]
