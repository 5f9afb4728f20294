import io
import math

import pytest

from fasta_learn._cli._terminal import write
from fasta_learn._text import (
    format_count,
    format_duration,
    format_pairs,
    format_share,
    format_table,
)
from fasta_learn.configs._formats import format_config, format_launch


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 pools"), (1, "1 pool"), (2, "2 pools")]
)
def test_counts_have_a_plural(count, text):
    assert format_count(count, "pool") == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.029759999, "29.76 µs"),
        (0.1, "100.0 µs"),
        (0.99991, "999.9 µs"),
        (0.99996, "1.000 ms"),
        (1.0, "1.000 ms"),
        (999.96, "1.000 s"),
        (1500.0, "1.500 s"),
        (1234000.0, "1234 s"),
        (0.00025, "250.0 ns"),
        (-0.8, "-800.0 µs"),
        (math.inf, "-"),
        (math.nan, "-"),
    ],
)
def test_duration_has_four_digits_in_a_fitting_unit(duration, text):
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.2, "20.0 %"), (0.0404, "4.0 %"), (math.inf, "-")]
)
def test_share_is_in_percent(share, text):
    assert format_share(share) == text


def test_config_reads_as_keyword_arguments():
    config = {"BLOCK": 64, "layout": "row", "fast": True}
    assert format_config(config) == "BLOCK=64, layout='row', fast=True"


def test_table_is_aligned_to_the_right():
    assert format_table(("n", "best"), [("10", "1 ms")]) == " n  best\n10  1 ms"


def test_pairs_are_in_two_columns_and_wrapped():
    pairs = [("a", "one two three"), ("long", "four")]
    expected = "a     one two\n      three\nlong  four"
    assert format_pairs(pairs, width=14) == expected


def test_pairs_keep_a_name_without_text():
    assert format_pairs([("name", "")]) == "name"


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("utf-8", "9 µs ≤ 10\n".encode()),
        ("latin-1", b"9 us \\u2264 10\n"),
        ("ascii", b"9 us \\u2264 10\n"),
    ],
)
def test_write_copes_with_any_encoding(encoding, data):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    write("9 µs ≤ 10", file)
    assert file.buffer.getvalue() == data


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"BLOCK": 64, "num_warps": 4}, "triton.Config({'BLOCK': 64}, num_warps=4)"),
        (
            {"num_stages": 2, "kind": "row"},
            "triton.Config({'kind': 'row'}, num_stages=2)",
        ),
        ({"A": 1, "B": True}, "triton.Config({'A': 1, 'B': True})"),
        ({"maxnreg": 64, "num_ctas": 1}, "triton.Config({}, maxnreg=64, num_ctas=1)"),
    ],
)
def test_launch_config(config, text):
    assert format_launch(config) == text
