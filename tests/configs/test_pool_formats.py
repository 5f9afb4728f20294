import gzip
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fasta_learn
from fasta_learn.configs import Pool, config_key, read_pool, write_pool
from fasta_learn.exceptions import MissingExtraError, PoolFormatError

SHIPPED = sorted((Path(fasta_learn.__file__).parent / "datasets/pools").glob("*/*.csv"))
KINDS = [".csv", ".csv.gz", ".parquet"]


def read_text(folder, text, **options):
    path = folder / "pool.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_pool(path, **options)


def make_pool():
    return Pool(
        [{"BLOCK": 16, "kind": "a"}, {"BLOCK": 32}, {"BLOCK": 64, "kind": "b, c"}],
        [0.1, math.inf, 1 / 3],
        ["ok", "OutOfResources: shared memory", "ok"],
        "three",
        pd.DataFrame({"duration_p20_ms": [0.09, np.nan, 0.3]}),
    )


def assert_same(first, second):
    assert list(map(config_key, first.configs)) == list(map(config_key, second.configs))
    assert_array_equal(first.durations, second.durations)
    assert first.status == second.status
    assert list(first.extra.columns) == list(second.extra.columns)
    assert_array_equal(first.extra.to_numpy(), second.extra.to_numpy())


def test_csv(tmp_path):
    pool = read_text(
        tmp_path,
        "BLOCK,warps,duration_ms,duration_p20_ms,status\n"
        "16,4,0.5,0.4,ok\n"
        "32,8,inf,,out of resources\n",
    )
    assert pool.configs == [{"BLOCK": 16, "warps": 4}, {"BLOCK": 32, "warps": 8}]
    assert_array_equal(pool.durations, [0.5, np.inf])
    assert pool.status == ["ok", "out of resources"]
    assert_array_equal(pool.extra["duration_p20_ms"], [0.4, np.nan])
    assert pool.name == "pool"


def test_costs_are_no_parameters(tmp_path):
    columns = ["compile_seconds", "run_seconds", "registers", "spills", "shared_bytes"]
    text = f"BLOCK,duration_ms,{','.join(columns)}\n16,1,0.5,0.25,32,0,\n"
    pool = read_text(tmp_path, text)
    assert pool.configs == [{"BLOCK": 16}]
    assert list(pool.extra.columns) == columns
    assert_array_equal(pool.extra.to_numpy(), [[0.5, 0.25, 32, 0, np.nan]])


def test_name(tmp_path):
    text = "a,duration_ms\n1,2\n"
    assert read_text(tmp_path, text, name="other").name == "other"
    assert read_text(tmp_path, text, name="").name == ""


@pytest.mark.parametrize(
    ("file", "name"), [("a.v2.csv", "a.v2"), ("A.CSV", "A"), ("b.csv.gz", "b")]
)
def test_name_is_that_of_the_file(tmp_path, file, name):
    data = b"a,duration_ms\n1,2\n"
    (tmp_path / file).write_bytes(gzip.compress(data) if file.endswith("gz") else data)
    assert read_pool(tmp_path / file).name == name


def test_path_may_be_text(tmp_path):
    (tmp_path / "p.csv").write_text("a,duration_ms\n1,2\n")
    assert len(read_pool(str(tmp_path / "p.csv"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfa,duration_ms\n1,2.5\n",  # byte order mark
        "a,duration_ms\r\n1,2.5\r\n",
        "\n\na,duration_ms\n\n1,2.5\n  \n\n",  # blank lines
        " a , duration_ms \n 1 ,\t2.5 \n",
        "duration_ms,a\n2.5,1\n",
        "a,duration_ms\n1.0,2.5",  # no newline at the end
        'a,duration_ms\n"1","2.5"\n',
        "a,duration_ms\n1e0,25e-1\n",
        "a,duration_ms,status\n1,2.5,\n",
        "a,duration_ms,status\n1,2.5,OK\n",
        "status,duration_ms,a\nok,+2.5,1\n",
    ],
)
def test_what_is_tolerated(tmp_path, text):
    pool = read_text(tmp_path, text)
    assert list(map(config_key, pool.configs)) == ['{"a":1}']
    assert pool.durations.tolist() == [2.5]
    assert pool.status == ["ok"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["16", "32"], [16, 32]),
        (["16.0", "32.0"], [16, 32]),
        (["1e3", "2"], [1000, 2]),
        (["16.0", "32.5"], [16.0, 32.5]),
        (["1", "2.5"], [1.0, 2.5]),
        ([".5", "-2."], [0.5, -2.0]),
        (["True", "False"], [True, False]),
        (["true", "FALSE"], [True, False]),
        (["mn", "nm"], ["mn", "nm"]),
        (["16", "auto"], ["16", "auto"]),
        (["True", "1"], ["True", "1"]),
        (["1_0", "2"], ["1_0", "2"]),
        (["nan", "2"], ["nan", "2"]),
        (["1e999", "2"], ["1e999", "2"]),
        (["90071992547409931", "1"], [90071992547409931, 1]),
    ],
)
def test_types_of_parameters(tmp_path, cells, expected):
    pool = read_text(tmp_path, "a,duration_ms\n" + "".join(f"{c},1\n" for c in cells))
    values = [config["a"] for config in pool.configs]
    assert values == expected
    assert list(map(type, values)) == list(map(type, expected))


def test_empty_cell_is_a_missing_keyword(tmp_path):
    pool = read_text(tmp_path, "a,b,duration_ms\n1,,1\n2,5.0,1\n")
    assert pool.configs == [{"a": 1}, {"a": 2, "b": 5}]
    assert type(pool.configs[1]["b"]) is int


@pytest.mark.parametrize("cell", ["inf", "Inf", "+infinity", "INF"])
def test_infinite_duration_is_a_failure(tmp_path, cell):
    pool = read_text(tmp_path, f"a,duration_ms\n1,{cell}\n2,1\n")
    assert pool.durations[0] == math.inf
    assert pool.status == ["failed", "ok"]


@pytest.mark.parametrize("cell", ["", "inf", "nan", "0", "-1", "3.5"])
def test_duration_of_a_failed_config_does_not_matter(tmp_path, cell):
    pool = read_text(tmp_path, f"a,duration_ms,status\n1,{cell},timeout\n2,1,ok\n")
    assert pool.durations.tolist() == [math.inf, 1.0]
    assert pool.status == ["timeout", "ok"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,duration_ms\n1,2\n3,nan\n", "line 3, column 'duration_ms': it is nan"),
        ("a,duration_ms\n1,-2\n", "line 2, column 'duration_ms': it is -2"),
        ("a,duration_ms\n1,0\n", "line 2, column 'duration_ms': it is 0; write a pos"),
        ("a,duration_ms\n1,-inf\n", "line 2, column 'duration_ms': it is -inf"),
        ("a,duration_ms\n1,fast\n", "line 2, column 'duration_ms': 'fast' is not a"),
        ("a,duration_ms\n1,1_0\n", "line 2, column 'duration_ms': '1_0' is not a"),
        ("a,duration_ms\n\n1,\n", "line 3, column 'duration_ms': it is empty"),
        ("a,duration_ms,status\n1,inf,ok\n", "line 2, column 'duration_ms'.*status is"),
        ("a,duration_ms,status\n1,x,bad\n", "line 2, column 'duration_ms': 'x' is not"),
        ("a,duration_ms,duration_sd\n1,2,x\n", "line 2, column 'duration_sd': 'x' is"),
        ("a,b,duration_ms\n1,2,3\n1,2\n", "line 3: 2 cells for 3.*'duration_ms'"),
        ("a,duration_ms\n1,2,3\n", "line 2: 3 cells for 2 .*'duration_ms' is '3'"),
        ("a,b,a,duration_ms\n1,2,3,4\n", "line 1: columns 1 and 3.*same name 'a'"),
        ("a,,duration_ms\n1,2,3\n", "line 1: column 2 has no name"),
        ("a,duration\n1,2\n", "line 1: .*no column 'duration_ms'.*'a', 'duration'"),
        ("a,duration,duration_ms\n1,2,3\n", "line 1: column 'duration' beside"),
        ("duration_ms,status\n1,ok\n", "line 1: there is no column of parameters"),
        ("a,duration_ms\n", "there are no configs"),
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        (b"a,duration_ms\n1,2\n\xff,3\n", "line 3: no text in UTF-8"),
        ("a,duration_ms\n" + "1" * 200_000 + ",1\n", "line 2: field larger"),
        (
            "a,duration_ms\n1,2\n2,2\n1.0,3\n\n2,5\n",
            r"2 configs .*line 4 repeats line 2 \({'a': 1}\); line 6 repeats line 3",
        ),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(PoolFormatError, match=rf"pool\.csv.*{message}"):
        read_text(tmp_path, text)


@pytest.mark.parametrize("file", ["pool.txt", "pool", "pool.gz", "pool.tar.gz"])
def test_unknown_kind_names_the_known_ones(tmp_path, file):
    (tmp_path / file).write_text("a,duration_ms\n1,2\n")
    with pytest.raises(PoolFormatError, match=r"\.csv, \.csv\.gz, \.parquet, \.json"):
        read_pool(tmp_path / file)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_pool(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "data",
    [b"a,duration_ms\n1,2\n", gzip.compress(b"a" * 99)[:-9]],
    ids=["none", "cut off"],
)
def test_broken_compression(tmp_path, data):
    (tmp_path / "pool.csv.gz").write_bytes(data)
    with pytest.raises(PoolFormatError, match="can't be decompressed"):
        read_pool(tmp_path / "pool.csv.gz")


def test_broken_parquet(tmp_path):
    (tmp_path / "pool.parquet").write_bytes(b"PAR1")
    with pytest.raises(PoolFormatError, match="no Parquet file"):
        read_pool(tmp_path / "pool.parquet")


def test_parquet_errors_name_the_row(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "duration_ms": [1.0, -1.0]})
    frame.to_parquet(tmp_path / "pool.parquet")
    with pytest.raises(PoolFormatError, match="row 2, column 'duration_ms': it is -1"):
        read_pool(tmp_path / "pool.parquet")


def test_parquet_of_pandas_with_missing_ints(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [None, 8], "duration_ms": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "pool.parquet")
    pool = read_pool(tmp_path / "pool.parquet")
    assert list(map(config_key, pool.configs)) == ['{"a":1}', '{"a":2,"b":8}']


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_parquet_needs_its_extra_and_csv_does_not(tmp_path, kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / f"pool{kind}"
    if kind == ".csv":
        write_pool(make_pool(), path)
        assert len(read_pool(path)) == 3
    else:
        with pytest.raises(MissingExtraError, match=r"fasta-learn\[parquet\]"):
            write_pool(make_pool(), path)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    write_pool(make_pool(), tmp_path / f"three{kind}")
    assert_same(read_pool(tmp_path / f"three{kind}"), make_pool())


def parameter_columns(n_rows):
    """Columns that a file can hold: of one type, and no text that looks like one."""
    words = st.text("abcdefgh,;'\"é é", min_size=1).map(lambda text: f"x{text}y")
    kinds = st.sampled_from(
        [
            st.integers(-(2**62), 2**62),
            st.floats(allow_nan=False, allow_infinity=False).filter(
                lambda value: not value.is_integer()
            ),
            st.booleans(),
            words,
        ]
    )
    return kinds.flatmap(
        lambda kind: st.lists(
            st.one_of(st.none(), kind), min_size=n_rows, max_size=n_rows
        )
    )


@st.composite
def pools(draw):
    n_rows = draw(st.integers(1, 6))
    names = draw(st.lists(st.sampled_from("abcde"), max_size=3, unique=True))
    columns = {name: draw(parameter_columns(n_rows)) for name in names}
    configs = [
        {
            "row": row,
            **{
                n: values[row]
                for n, values in columns.items()
                if values[row] is not None
            },
        }
        for row in range(n_rows)
    ]
    positive = st.floats(min_value=0, exclude_min=True, allow_infinity=True)
    durations = draw(st.lists(positive, min_size=n_rows, max_size=n_rows))
    extra = st.lists(st.floats(allow_infinity=True), min_size=n_rows, max_size=n_rows)
    return Pool(
        configs, durations, extra=pd.DataFrame({"duration_rel_sd": draw(extra)})
    )


@pytest.mark.parametrize("kind", KINDS)
@given(pool=pools())
def test_round_trip_of_any_pool(tmp_path_factory, kind, pool):
    path = tmp_path_factory.mktemp("round_trip") / f"pool{kind}"
    write_pool(pool, path)
    assert_same(read_pool(path), pool)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_pools_are_rewritten_as_they_are(tmp_path, path):
    pool = read_pool(path)
    write_pool(pool, tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text().splitlines() == (
        path.read_text().splitlines()
    )


def test_compressed_files_are_reproducible(tmp_path):
    write_pool(make_pool(), tmp_path / "a.csv.gz")
    # Bytes 4 to 7 of the format are the time of writing.
    assert (tmp_path / "a.csv.gz").read_bytes()[4:8] == bytes(4)


def test_whole_floats_are_read_back_as_ints(tmp_path):
    write_pool(Pool([{"x0": 16.0}, {"x0": 32.0}], [1, 2]), tmp_path / "p.csv")
    values = [config["x0"] for config in read_pool(tmp_path / "p.csv").configs]
    assert list(map(repr, values)) == ["16", "32"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": "64"}, "would be read back"),
        ({"a": "True"}, "would be read back"),
        ({"a": 1, "b": None}, "would be read back"),
        ({"a": 1, "duration": 2}, "can't be read back.*'duration' beside"),
        ({"a": 1, "status": "x"}, "would be read back"),
        ({}, "can't be read back.*no column of parameters"),
    ],
)
def test_pool_that_a_file_would_change_is_not_written(tmp_path, kind, config, message):
    with pytest.raises(ValueError, match=message):
        write_pool(Pool([config], [1.0]), tmp_path / f"pool{kind}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [[1, 2], " x", "", math.inf])
def test_value_that_only_parquet_holds(tmp_path, value):
    pool = Pool([{"a": value, "b": 1}], [1.0])
    with pytest.raises(ValueError, match="would be read back"):
        write_pool(pool, tmp_path / "pool.csv")
    write_pool(pool, tmp_path / "pool.parquet")
    assert_same(read_pool(tmp_path / "pool.parquet"), pool)


def test_parquet_refuses_mixed_types(tmp_path):
    with pytest.raises(ValueError, match="column 'a' has no single type"):
        write_pool(Pool([{"a": 1}, {"a": "x"}], [1.0, 2.0]), tmp_path / "p.parquet")


def test_extra_columns_must_say_that_they_are_measured(tmp_path):
    pool = Pool([{"a": 1}], [1.0], extra=pd.DataFrame({"occupancy": [32]}))
    with pytest.raises(ValueError, match="'occupancy' would be read back as a param"):
        write_pool(pool, tmp_path / "p.csv")


def test_status_with_spaces_around_is_not_written(tmp_path):
    pool = Pool([{"a": 1}], [math.inf], [" bad"])
    with pytest.raises(ValueError, match="without spaces"):
        write_pool(pool, tmp_path / "p.csv")


def test_other_kinds_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"can be written as \.csv"):
        write_pool(make_pool(), tmp_path / "pool.json")
