"""Whatever a file holds, reading it gives a log or a ValueError."""

import gzip
import io
import lzma

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from fasta_learn.heuristics import (
    HeuristicLog,
    LogMetadata,
    read_log,
    read_logs,
    write_log,
)

METADATA = LogMetadata("pad_mm", 232448, (9, 0), ("m", "k"), ("dtype", "tf32"))
OTHER = LogMetadata("pad_mm", 166912, (8, 0), ("m", "k"), ("dtype", "tf32"))
NAMES = ["m", "k", "dtype", "tf32", "choice", "feedback"]
KNOWN = ("a", "b", "True", "(8, 0)", "")

NUMBERS = st.integers(-(10**18) + 1, 10**18 - 1)
DURATIONS = st.one_of(
    st.floats(1e-9, 1e9), st.just(float("inf")), st.integers(1, 10**6).map(float)
)
# All that a category may be: any text without line ends, NUL and what is no text.
CATEGORIES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\x00\ufffd"),
    max_size=12,
)
ROWS = st.lists(
    st.tuples(NUMBERS, NUMBERS, CATEGORIES, CATEGORIES, CATEGORIES, DURATIONS),
    max_size=20,
)


def make_log(rows):
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    frame = pd.DataFrame(dict(zip(NAMES, columns, strict=True)))
    for name in NAMES[:2]:
        frame[name] = frame[name].astype(np.int64)
    frame["feedback"] = frame["feedback"].astype(np.float64)
    return HeuristicLog(METADATA, frame)


def rows_of(log):
    return list(log.frame[NAMES].astype(object).itertuples(index=False, name=None))


def check_sound(log):
    """Check what every log that was read promises."""
    frame = log.frame
    assert sorted(frame.columns) == sorted([*log.metadata.features, *NAMES[4:]])
    assert (frame["feedback"] > 0).all()
    for name in log.metadata.numerical_features:
        assert np.isfinite(frame[name]).all()
    for name in (*log.metadata.categorical_features, "choice"):
        assert frame[name].notna().all()
    assert all(isinstance(number, int) and number >= 1 for number, _ in log.problems)


@settings(deadline=None, max_examples=150)
@given(ROWS, st.sampled_from(["", ".gz", ".xz"]))
def test_what_is_written_is_read(tmp_path_factory, rows, suffix):
    path = tmp_path_factory.mktemp("log") / f"log{suffix}"
    write_log(make_log(rows), path)
    log = read_log(path, strict=True)
    assert rows_of(log) == rows


# Pieces of which damaged files are made.
PIECES = st.one_of(
    st.sampled_from(
        [
            METADATA.header_line() + "\n",
            OTHER.header_line() + "\n",
            ",".join(NAMES) + "\n",
            ",".join(reversed(NAMES)) + "\n",
            "8,1001,a,True,orig,0.25\n",
            "8,1001,a,True,pad,inf\n",
            "8,1001,a,b,True,pad,1.5\n",
            "8,1001,(8, 0),True,pad,nan\n",
            '8,1001,"x,y",True,pad,2\n',
            '{"',
            '"',
            ",",
            "\n",
            "\r\n",
            "{",
            "[",
            "feedback\n",
            "1e5",
            "-inf",
            "\x00",
            "\ufeff",
        ]
    ),
    st.text(max_size=8),
)


@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=30).map("".join), st.booleans())
def test_any_pieces_give_sound_logs_or_a_value_error(text, begins):
    if begins:
        text = f"{METADATA.header_line()}\n{','.join(NAMES)}\n{text}"
    try:
        logs = read_logs(io.StringIO(text))
    except ValueError:
        return
    for log in logs:
        check_sound(log)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x1f\x8b", b"\xfd7zXZ\x00"]))
def test_any_bytes_give_sound_logs_or_a_value_error(data, magic):
    try:
        logs = read_logs(io.BytesIO(magic + data))
    except ValueError:
        return
    for log in logs:
        check_sound(log)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_rows_of_a_cut_file_are_the_first_ones(data):
    rows = [(8, k, "a", "True", "orig", k / 7) for k in range(1, 30)]
    lines = [METADATA.header_line(), ",".join(NAMES)]
    lines += [",".join(map(str, row)) for row in rows]
    whole = "".join(line + "\n" for line in lines).encode()
    compress = data.draw(st.sampled_from([bytes, gzip.compress, lzma.compress]))
    packed = compress(whole)
    length = data.draw(st.integers(0, len(packed)))
    try:
        log = read_log(io.BytesIO(packed[:length]))
    except ValueError:
        return
    assert rows_of(log) == rows[: len(log)]
    if compress is bytes:
        assert len(log) == max(0, packed[:length].count(b"\n") - 2)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=6))
def test_damaged_lines_cost_only_themselves(changes):
    rows = [(8, k, "a", "True", "orig", k / 7) for k in range(1, 20)]
    lines = [",".join(map(str, row)).encode() for row in rows]
    touched = set()
    for place, new in changes:
        index = place % len(lines)
        at = place // len(lines)
        # A new line end or header would make more of it than a damaged line.
        lines[index] = lines[index][:at] + new.replace(b"\n", b"") + lines[index][at:]
        touched.add(index)
    head = [METADATA.header_line().encode(), ",".join(NAMES).encode()]
    log = read_log(io.BytesIO(b"".join(line + b"\n" for line in head + lines)))
    untouched = [row for index, row in enumerate(rows) if index not in touched]
    assert set(untouched) <= set(rows_of(log))
    assert len(log) <= len(rows)
    check_sound(log)


@settings(deadline=None, max_examples=100)
@given(ROWS, ROWS, st.permutations(NAMES))
def test_logs_behind_each_other_are_one(first, second, order):
    def text(rows, names):
        log = make_log(rows)
        buffer = io.StringIO()
        log.frame[names].to_csv(buffer, index=False, lineterminator="\n")
        return METADATA.header_line() + "\n" + buffer.getvalue()

    log = read_log(io.StringIO(text(first, NAMES) + text(second, order)), strict=True)
    assert rows_of(log) == first + second
