import gzip
import io
import json
import lzma

import numpy as np
import pandas as pd
import pytest

from fasta_learn.heuristics import LogMetadata, read_log, read_logs

METADATA = LogMetadata(
    "pad_mm", 232448, (9, 0), ("m", "k"), ("mat1_dtype", "using_tf32")
)
HEAD = METADATA.header_line()
NAMES = "m,k,mat1_dtype,using_tf32,choice,feedback"
ROWS = [
    "8,1001,torch.float16,not_float_32,orig,0.25",
    "8,1001,torch.float16,not_float_32,pad,1e-05",
    "16,7,torch.float32,True,orig,inf",
]
OTHER = METADATA.header_line().replace("232448", "166912").replace("9, 0", "8, 0")


def text_of(*lines, head=HEAD, names=NAMES):
    return "".join(line + "\n" for line in (head, names, *lines))


def read(*lines, strict=False, **parts):
    return read_log(io.StringIO(text_of(*lines, **parts)), strict=strict)


def rows_of(log):
    """Return the rows as tuples of plain values, in the order of NAMES."""
    frame = log.frame[NAMES.split(",")]
    return list(frame.astype(object).itertuples(index=False, name=None))


PARSED = [
    (8, 1001, "torch.float16", "not_float_32", "orig", 0.25),
    (8, 1001, "torch.float16", "not_float_32", "pad", 1e-05),
    (16, 7, "torch.float32", "True", "orig", np.inf),
]


def test_rows_are_read_in_order():
    log = read(*ROWS)
    assert rows_of(log) == PARSED
    assert log.problems == []
    assert log.metadata == METADATA


def test_columns_have_types():
    frame = read(*ROWS).frame
    assert frame["m"].dtype == np.int64
    assert frame["feedback"].dtype == np.float64
    for name in ("mat1_dtype", "using_tf32", "choice"):
        assert isinstance(frame[name].dtype, pd.CategoricalDtype)
        assert frame[name].cat.categories.is_monotonic_increasing


def test_durations_are_read_to_the_last_bit():
    duration = 148.82896423339844 + 2**-45
    assert read(f"8,1,a,b,orig,{duration!r}").frame["feedback"].item() == duration


def test_numbers_may_have_fractions():
    log = read("8,1,a,b,orig,1", "8.5,1,a,b,orig,1")
    assert log.frame["m"].tolist() == [8.0, 8.5]
    assert log.frame["k"].dtype == np.int64


def test_log_without_rows_has_typed_columns():
    frame = read().frame
    assert list(frame.columns) == NAMES.split(",")
    assert frame["m"].dtype == np.int64
    assert isinstance(frame["choice"].dtype, pd.CategoricalDtype)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("kind", ["path", "text", "file"])
def test_paths_and_files_compressed_or_not(tmp_path, compress, kind):
    path = tmp_path / "log"  # the name does not tell the compression
    path.write_bytes(compress(text_of(*ROWS).encode()))
    source = {"path": path, "text": str(path)}.get(kind) or path.open("rb")
    assert rows_of(read_log(source)) == PARSED


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_behind_each_other(compress):
    data = compress(text_of(*ROWS[:2]).encode()) + compress((ROWS[2] + "\n").encode())
    assert rows_of(read_log(io.BytesIO(data))) == PARSED


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("damage", [lambda d: d[:-60], lambda d: d + b"xyz"])
def test_damaged_compression_keeps_what_came_before(compress, damage):
    rng = np.random.default_rng(0)
    lines = [f"8,{k},a,b,orig,1.0" for k in rng.integers(1, 10**9, 20_000)]
    log = read_log(io.BytesIO(damage(compress(text_of(*lines).encode()))))
    assert len(log) > 19_000
    assert "compressed data" in log.problems[0][1]


def test_missing_file_is_told():
    with pytest.raises(FileNotFoundError):
        read_log("no such file")


def test_source_must_be_a_path_or_file():
    with pytest.raises(TypeError, match="path or an open file, not int"):
        read_log(3)


@pytest.mark.parametrize("end", ["", ROWS[2][:20], ROWS[2]])
def test_last_line_without_end_is_not_used(end):
    log = read_log(io.StringIO(text_of(*ROWS[:2]) + end))
    assert rows_of(log) == PARSED[:2]
    expected = [(5, "the last line has no end, so it may be cut")] if end else []
    assert log.problems == expected


def test_windows_line_ends_and_byte_order_mark():
    data = b"\xef\xbb\xbf" + text_of(*ROWS).replace("\n", "\r\n").encode()
    assert rows_of(read_log(io.BytesIO(data))) == PARSED


def test_blank_lines_are_skipped():
    log = read_log(io.StringIO("\n" + text_of("", ROWS[0], "  ", *ROWS[1:])))
    assert rows_of(log) == PARSED
    assert log.problems == []


def test_columns_in_another_order():
    lines = [",".join(row.split(",")[::-1]) for row in ROWS]
    names = ",".join(NAMES.split(",")[::-1])
    log = read(*lines, names=names)
    assert rows_of(log) == PARSED
    assert list(log.frame.columns) == names.split(",")


def test_metadata_of_an_older_file():
    old = {**dict(reversed(json.loads(HEAD).items())), "choices": ["orig", "pad"]}
    log = read(*ROWS, head=json.dumps(old))
    assert rows_of(log) == PARSED
    assert log.metadata.extra == {"choices": ["orig", "pad"]}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("8,1,a,b,orig", "5 fields instead of 6"),
        ("8", "1 fields instead of 6"),
        ("8,1,a,b,orig,nan", "feedback is 'nan', not a duration in ms or inf"),
        ("8,1,a,b,orig,-1.0", "feedback is '-1.0'"),
        ("8,1,a,b,orig,-inf", "feedback is '-inf'"),
        ("8,1,a,b,orig,None", "feedback is 'None'"),
        ("8,1,a,b,orig,", "feedback is ''"),
        ("8,1,a,b,orig,0.0", "feedback is 0"),
        ("8,1,a,b,orig,1e999", "feedback is '1e999'"),
        ("s0,1,a,b,orig,1.0", "m is 's0', not a number"),
        ("8,nan,a,b,orig,1.0", "k is 'nan', not a number"),
        ("8,1_0,a,b,orig,1.0", "k is '1_0'"),
        ("8,\u0661,a,b,orig,1.0", "k is '\u0661'"),
        ("8," + "9" * 5000 + ",a,b,orig,1.0", "k is '999"),
        ("8,1,a\x00,b,orig,1.0", "mat1_dtype has characters that are no text"),
        ("8,1,a\ufffd,b,orig,1.0", "mat1_dtype has characters that are no text"),
        ("8,1,a\rb,b,orig,1.0", "mat1_dtype has characters that are no text"),
    ],
)
class TestLinesThatAreNoRow:
    def test_is_left_out_and_told(self, line, what):
        log = read(ROWS[0], line, *ROWS[1:])
        assert rows_of(log) == PARSED
        ((number, told),) = log.problems
        assert number == 4
        assert what in told

    def test_is_an_error_if_strict(self, line, what):
        with pytest.raises(ValueError, match="the log, line 4: "):
            read(ROWS[0], line, strict=True)


def test_strict_reading_takes_a_sound_file():
    assert rows_of(read(*ROWS, strict=True)) == PARSED


def test_bytes_that_are_no_text_are_told():
    data = text_of(*ROWS).encode() + b"8,1,\xff\xfe,b,orig,1.0\n"
    log = read_log(io.BytesIO(data))
    assert rows_of(log) == PARSED
    assert log.problems == [(6, "mat1_dtype has characters that are no text")]


@pytest.mark.parametrize(
    "category", ["(8, 0)", "torch.Size([1, 2])", "{a, (b, [c, d])}", '"x, y"']
)
def test_commas_within_brackets_and_quotes(category):
    log = read(f"8,1,{category},b,orig,1.0")
    assert log.frame["mat1_dtype"].tolist() == [category.strip('"')]
    assert log.problems == []


@pytest.mark.parametrize("category", ['a"b', '"', '"a', "(", "a)", "]["])
def test_single_quotes_and_brackets_are_text(category):
    log = read(f"8,1,{category},b,orig,1.0")
    assert log.frame["mat1_dtype"].tolist() == [category]


def test_commas_in_the_one_unknown_category():
    log = read(*ROWS, "8,1,torch.float16,True,mm, tile 3,2.0")
    assert rows_of(log)[3] == (8, 1, "torch.float16", "True", "mm, tile 3", 2.0)
    assert log.problems == [(6, "was read with commas in choice: 'mm, tile 3'")]


def test_rows_with_commas_keep_their_place():
    lines = [ROWS[0], "8,1,torch.float16,True,a,b,2.0", *ROWS[1:]]
    assert rows_of(read(*lines))[1][4] == "a,b"


@pytest.mark.parametrize(
    "categories",
    [
        "torch.float16,torch.float16,True,orig",  # in mat1_dtype or using_tf32
        "a,b,c,orig",  # nowhere: two categories would be new
    ],
)
def test_commas_that_have_not_one_place(categories):
    log = read(*ROWS, f"8,1,{categories},2.0")
    assert rows_of(log) == PARSED
    assert log.problems == [(6, "7 fields instead of 6")]


@pytest.mark.parametrize("length", [3, 6, 12, 25, 40, len(ROWS[0]) - 1])
def test_a_cut_line_that_ran_together_with_the_next(length):
    log = read(ROWS[0], ROWS[0][:length] + ROWS[1], *ROWS[1:])
    assert rows_of(log) == PARSED
    told = "two rows have run together, the first of them cut"
    assert log.problems == [(4, told)]


def test_logs_of_one_device_behind_each_other():
    text = text_of(ROWS[0]) + text_of(*ROWS[1:])
    log = read_log(io.StringIO(text), strict=True)
    assert rows_of(log) == PARSED


def test_logs_behind_each_other_with_columns_in_another_order():
    names = "feedback,choice,using_tf32,mat1_dtype,k,m"
    lines = [",".join(row.split(",")[::-1]) for row in ROWS[1:]]
    text = text_of(ROWS[0]) + text_of(*lines, names=names)
    assert rows_of(read_log(io.StringIO(text), strict=True)) == PARSED


def test_names_alone_within_a_file_are_skipped():
    assert rows_of(read(ROWS[0], NAMES, *ROWS[1:], strict=True)) == PARSED


def test_a_cut_line_that_ran_together_with_metadata():
    text = text_of(ROWS[0]) + ROWS[0][:20] + text_of(*ROWS[1:])
    log = read_log(io.StringIO(text))
    assert rows_of(log) == PARSED
    assert log.problems == [(4, "a cut line has run together with metadata")]


def test_metadata_without_names_within_a_file():
    log = read(ROWS[0], HEAD, *ROWS[1:])
    assert rows_of(log) == PARSED
    told = "the names of the columns are missing before this line"
    assert log.problems == [(5, told)]


def test_mixed_devices_are_an_error_that_says_which():
    text = text_of(ROWS[0]) + text_of(*ROWS[1:], head=OTHER)
    message = (
        r"holds several logs, and the one at line 4 differs in shared_memory 232448 "
        r"and 166912; device_capa \(9, 0\) and \(8, 0\)\. Use read_logs"
    )
    with pytest.raises(ValueError, match=message):
        read_log(io.StringIO(text))


def test_read_logs_separates_devices():
    text = text_of(ROWS[0]) + text_of(ROWS[1], head=OTHER) + text_of(ROWS[2])
    first, second = read_logs(io.StringIO(text))
    assert first.metadata == METADATA
    assert rows_of(first) == [PARSED[0], PARSED[2]]
    assert second.metadata == LogMetadata.from_line(OTHER)
    assert rows_of(second) == [PARSED[1]]


def test_read_logs_gives_problems_to_the_log_they_are_in():
    text = text_of("1") + text_of("2,3", head=OTHER)
    first, second = read_logs(io.StringIO(text))
    assert first.problems == [(3, "1 fields instead of 6")]
    assert second.problems == [(6, "2 fields instead of 6")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, or was cut within its first line"),
        ("\n\n", "is empty"),
        (HEAD, "is empty, or was cut within its first line"),
        (NAMES + "\n", "line 1: the metadata is not JSON"),
        (HEAD[:-1] + "\n" + NAMES + "\n", "line 1: the metadata is not JSON"),
        ('{"name": "mm"}\n', "line 1: the metadata lacks shared_memory"),
        (text_of(names="m,k,choice,feedback"), "line 2 does not name the columns"),
        (text_of(names=ROWS[0]), "line 2 does not name the columns"),
    ],
)
def test_what_is_no_log_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        read_log(io.StringIO(text))


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("hello\n")
    with pytest.raises(ValueError, match=r"some\.txt, line 1: "):
        read_log(path)


def test_metadata_alone_is_a_log_without_rows():
    log = read_log(io.StringIO(HEAD + "\n" + NAMES[:10]))
    assert len(log) == 0
    assert list(log.frame.columns) == NAMES.split(",")


def test_lines_longer_than_a_block(monkeypatch):
    from fasta_learn.heuristics import _log_lines

    monkeypatch.setattr(_log_lines, "_BLOCK", 7)
    assert rows_of(read(*ROWS)) == PARSED


def test_a_file_without_line_ends_is_no_log():
    text = text_of(*ROWS) + "8," * 10**7
    with pytest.raises(ValueError, match="no log has a line of more than 16 MB"):
        read_log(io.StringIO(text))


class Chunks(io.RawIOBase):
    """A file that gives a few bytes at a time, as sockets do."""

    def __init__(self, data):
        self.data = data

    def read(self, size=-1):
        part, self.data = self.data[:5], self.data[5:]
        return part


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_files_that_give_little_at_a_time(compress):
    data = compress(text_of(*ROWS).encode())
    assert rows_of(read_log(Chunks(data))) == PARSED
