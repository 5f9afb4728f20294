import io
import multiprocessing
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from fasta_learn.heuristics import (
    HeuristicLog,
    LogMetadata,
    append_log,
    read_log,
    write_log,
)
from fasta_learn.heuristics import _log_writing as writing

METADATA = LogMetadata("mm", 232448, (9, 0), ("m", "k"), ("dtype",))
# As in torch's context of mm, numbers and categories are mixed.
NAMES = "m,dtype,k,choice,feedback"
TEXT = (
    METADATA.header_line()
    + "\n"
    + NAMES
    + "\n"
    + "8,torch.float16,3,extern_mm,148.8771209716797\n"
    + "8,torch.float16,3,type=triton_BLOCK-M=64,inf\n"
    + "8,torch.float16,3,extern_mm,1e-05\n"
    + "8,torch.float16,3,extern_mm,2.0\n"
)
ROW = {"m": 8, "dtype": "a", "k": 3, "choice": "x", "feedback": 1.0}


def test_a_log_of_torch_comes_out_byte_for_byte(tmp_path):
    write_log(read_log(io.StringIO(TEXT)), tmp_path / "log")
    assert (tmp_path / "log").read_text() == TEXT


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_the_name_says_whether_to_compress(tmp_path, suffix):
    log = read_log(io.StringIO(TEXT))
    path = tmp_path / f"log{suffix}"
    write_log(log, path)
    assert not path.read_bytes().startswith(b"{")
    assert read_log(path).frame.equals(log.frame)


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz"])
def test_equal_logs_are_equal_files(tmp_path, suffix):
    log = read_log(io.StringIO(TEXT))
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        write_log(log, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_many_rows_are_written_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_CHUNK", 3)
    write_log(read_log(io.StringIO(TEXT)), tmp_path / "log")
    assert (tmp_path / "log").read_text() == TEXT


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("m", np.nan, "m is nan in row 1, but must be finite"),
        ("m", np.inf, "m is inf in row 1, but must be finite"),
        ("feedback", np.nan, "feedback is nan in row 1, but must be a positive"),
        ("feedback", 0.0, "feedback is 0.0 in row 1"),
        ("feedback", -1.0, "feedback is -1.0 in row 1"),
        ("dtype", "a\nb", "dtype is 'a\\\\nb' in row 1; a log can't hold line ends"),
        ("choice", "\x00", "choice is '\\\\x00' in row 1"),
        ("choice", None, "choice is missing in row 1"),
        ("m", "8", "m is '8' in row 1, which is no number"),
    ],
)
def test_values_that_no_log_can_hold(tmp_path, column, value, message):
    frame = pd.DataFrame([ROW, {**ROW, column: value}])
    path = tmp_path / "log"
    path.write_text("before")
    with pytest.raises(ValueError, match=message):
        write_log(HeuristicLog(METADATA, frame), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_columns_must_be_those_of_the_metadata(tmp_path):
    frame = pd.DataFrame([ROW]).drop(columns="k").assign(note=1)
    with pytest.raises(ValueError, match=r"missing are \['k'\], too many are \['note'"):
        write_log(HeuristicLog(METADATA, frame), tmp_path / "log")


def test_names_with_commas_are_refused(tmp_path):
    metadata = LogMetadata("mm", 0, (0, 0), ("m,k",), ())
    row = {"m,k": 1, "choice": "x", "feedback": 1.0}
    with pytest.raises(ValueError, match="name 'm,k' can't stand in a log"):
        append_log(tmp_path / "log", metadata, [row])


def test_append_makes_a_log_in_the_order_of_the_rows(tmp_path):
    append_log(tmp_path / "log", METADATA, [ROW])
    expected = f"{METADATA.header_line()}\n{NAMES}\n8,a,3,x,1.0\n"
    assert (tmp_path / "log").read_text() == expected


def test_append_puts_choice_and_feedback_last(tmp_path):
    append_log(tmp_path / "log", METADATA, [dict(reversed(ROW.items()))])
    line = (tmp_path / "log").read_text().splitlines()[1]
    assert line == "k,dtype,m,choice,feedback"


@pytest.mark.parametrize("make", [list, pd.DataFrame])
def test_append_follows_the_order_of_the_file(tmp_path, make):
    (tmp_path / "log").write_text(TEXT)
    rows = make([dict(reversed(ROW.items())), {**ROW, "feedback": np.float64("inf")}])
    append_log(tmp_path / "log", METADATA, rows)
    assert (tmp_path / "log").read_text() == TEXT + "8,a,3,x,1.0\n8,a,3,x,inf\n"


def test_append_writes_values_by_their_text(tmp_path):
    torch = pytest.importorskip("torch")
    row = {**ROW, "m": np.int64(8), "dtype": torch.float16, "choice": True}
    append_log(tmp_path / "log", METADATA, [row])
    assert (tmp_path / "log").read_text().endswith("8,torch.float16,3,True,1.0\n")


def test_append_nothing_makes_no_file(tmp_path):
    append_log(tmp_path / "log", METADATA, [])
    assert not (tmp_path / "log").exists()


def test_append_removes_a_line_that_was_cut(tmp_path):
    path = tmp_path / "log"
    path.write_text(TEXT + "8,torch.float16,3,extern_mm,14")
    append_log(path, METADATA, [ROW])
    assert path.read_text() == TEXT + "8,a,3,x,1.0\n"


def test_append_removes_a_long_line_that_was_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_BLOCK", 5)
    path = tmp_path / "log"
    path.write_text(TEXT + "8,torch.float16")
    append_log(path, METADATA, [ROW])
    assert path.read_text() == TEXT + "8,a,3,x,1.0\n"


@pytest.mark.parametrize("length", [0, 1, 20, TEXT.index("\n")])
@pytest.mark.parametrize("more", [0, 1, 7])
def test_append_completes_a_head_that_was_cut(tmp_path, length, more):
    path = tmp_path / "log"
    path.write_text(TEXT[: length + more])
    append_log(path, METADATA, [ROW])
    expected = f"{METADATA.header_line()}\n{NAMES}\n8,a,3,x,1.0\n"
    assert path.read_text() == expected


OTHER = LogMetadata("mm", 166912, (8, 0), ("m", "k"), ("dtype",)).header_line()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello", "is no log that can be appended to"),
        ("hello\nworld\n", "is no log that can be appended to"),
        (b"\x1f\x8b\x08\n\n", "is no log that can be appended to"),
        (OTHER, "is another log: shared_memory 232448 and 166912"),
        (OTHER[:50], "is no log that can be appended to"),
        (TEXT.replace("232448", "166912"), "is another log: shared_memory 232448 and"),
        (TEXT.replace("m,dtype", "n,dtype"), "line 2 of .*: missing are"),
    ],
)
def test_append_leaves_other_files_alone(tmp_path, content, message):
    path = tmp_path / "log"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        append_log(path, METADATA, [ROW])
    assert path.read_bytes() == before


def test_append_checks_all_rows_before_it_writes(tmp_path):
    path = tmp_path / "log"
    path.write_text(TEXT)
    with pytest.raises(ValueError, match="feedback is nan in row 1"):
        append_log(path, METADATA, [ROW, {**ROW, "feedback": float("nan")}])
    assert path.read_text() == TEXT


def test_append_wants_the_same_keys_in_all_rows(tmp_path):
    with pytest.raises(ValueError, match=r"rows\[1\] differs from rows\[0\] in note"):
        append_log(tmp_path / "log", METADATA, [ROW, {**ROW, "note": 1}])


def test_append_needs_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "fcntl", None)
    with pytest.raises(OSError, match="file locks"):
        append_log(tmp_path / "log", METADATA, [ROW])


def test_append_survives_short_writes(tmp_path, monkeypatch):
    write = writing.os.write
    monkeypatch.setattr(
        writing.os, "write", lambda descriptor, data: write(descriptor, data[:3])
    )
    append_log(tmp_path / "log", METADATA, [ROW])
    assert (tmp_path / "log").read_text().endswith(f"{NAMES}\n8,a,3,x,1.0\n")


def append_many(path, number):
    for k in range(40):
        append_log(path, METADATA, [{**ROW, "m": number, "k": k}] * 3)


def test_processes_append_to_one_file(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "log"
    children = [context.Process(target=append_many, args=(path, i)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    frame = read_log(path, strict=True).frame
    counts = frame.groupby(["m", "k"]).size()
    assert len(counts) == 3 * 40
    assert (counts == 3).all()


class TestWithTorch:
    """Torch's own AutoHeuristic as the other one who writes."""

    @pytest.fixture
    def collect(self, tmp_path):
        torch = pytest.importorskip("torch")
        from torch._inductor import config
        from torch._inductor.autoheuristic import autoheuristic
        from torch._inductor.fx_passes.pad_mm import get_context

        def collect(path, durations):
            context = get_context(
                torch.empty(8, 3, dtype=torch.float16),
                torch.empty(3, 5, dtype=torch.float16),
                False,
                True,
                0,
                5,
                3,
            )
            with (
                config.patch(autoheuristic_log_path=str(path)),
                mock.patch.object(config.autoheuristic_collect, "pad_mm", True),
                mock.patch.object(
                    autoheuristic, "get_gpu_shared_memory", return_value=166912
                ),
            ):
                autoheuristic.AutoHeuristic(
                    fallback=lambda: "autotune",
                    choices=["orig", "pad"],
                    feedback=autoheuristic.LocalFeedback(durations.__getitem__),
                    context=context,
                    name="pad_mm",
                )

        return collect

    def test_what_torch_writes_is_read(self, tmp_path, collect):
        path = tmp_path / "log"
        collect(path, {"orig": 0.1 + 0.2, "pad": float("inf")})
        log = read_log(path, strict=True)
        assert log.frame["feedback"].tolist() == [0.1 + 0.2, np.inf]
        assert log.frame["k_padded_length"].tolist() == [5, 5]
        assert log.frame["prepadded_mat2"].tolist() == ["True", "True"]

    def test_what_torch_wrote_comes_out_byte_for_byte(self, tmp_path, collect):
        path = tmp_path / "log"
        collect(path, {"orig": 0.1 + 0.2, "pad": 1e-7})
        write_log(read_log(path), tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == path.read_bytes()

    def test_torch_and_we_append_to_each_other(self, tmp_path, collect):
        path = tmp_path / "log"
        collect(path, {"orig": 1.0, "pad": 2.0})
        log = read_log(path)
        ours = tmp_path / "ours"
        append_log(ours, log.metadata, log.frame)
        collect(ours, {"orig": 3.0, "pad": 4.0})
        append_log(ours, log.metadata, log.frame.assign(feedback=[5.0, 6.0]))
        collect(ours, {"orig": 7.0, "pad": 8.0})
        both = read_log(ours, strict=True)
        assert both.frame["feedback"].tolist() == list(range(1, 9))
        assert len(both.inputs()) == 1
