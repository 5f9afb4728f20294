import gzip
import json
import math
import statistics

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fasta_learn.configs import read_pool
from fasta_learn.exceptions import PoolFormatError

ENTRIES = {
    "16,1": {"block_size_x": 16, "pad": 1, "time": 3.5, "compile_time": 918.6},
    "16,0": {"block_size_x": 16, "pad": 0, "time": "CompilationFailedConfig"},
    "32,1": {"block_size_x": 32, "pad": 1, "time": 2.25},
}


def make_cache(entries=None, **changes):
    """The text of a closed cache, an entry a line, as Kernel Tuner writes it."""
    head = {
        "device_name": "Some GPU",
        "kernel_name": "convolution",
        "tune_params_keys": ["block_size_x", "pad"],
        "tune_params": {"block_size_x": [16, 32], "pad": [0, 1]},
        "objective": "time",
        **changes,
    }
    lines = [
        f"{json.dumps(key)}: {json.dumps(entry)}"
        for key, entry in (ENTRIES if entries is None else entries).items()
    ]
    start = json.dumps({k: v for k, v in head.items() if v is not None}, indent=0)
    return f'{start[:-2]},\n"cache": {{\n' + ",\n".join(lines) + "\n}\n}\n"


def read_text(folder, text):
    (folder / "cache.json").write_text(text)
    return read_pool(folder / "cache.json")


def test_closed_cache(tmp_path):
    pool = read_text(tmp_path, make_cache())
    assert pool.configs == [
        {"block_size_x": 16, "pad": 1},
        {"block_size_x": 16, "pad": 0},
        {"block_size_x": 32, "pad": 1},
    ]
    assert_array_equal(pool.durations, [3.5, math.inf, 2.25])
    assert pool.status == ["ok", "compile_error", "ok"]
    assert pool.name == "cache"
    assert pool.description == "convolution on Some GPU, recorded by Kernel Tuner"


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: text.rstrip()[:-3].rstrip() + ",\n",  # a comma at the end
        lambda text: text.rstrip()[:-3].rstrip() + "\n",
        lambda text: text.rstrip()[:-1],  # one brace is missing
        lambda text: text.rstrip()[:-3].rstrip() + "}",  # the same, on one line
        lambda text: text.rstrip()[:-3].rstrip() + ',\n"32,0": {"block_si',  # torn
    ],
    ids=["comma", "no comma", "one brace", "one brace on the line", "torn line"],
)
def test_cache_of_an_interrupted_run(tmp_path, cut):
    text = cut(make_cache())
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert read_text(tmp_path, text).durations.tolist() == [3.5, math.inf, 2.25]


def test_open_cache_that_ends_like_a_closed_one(tmp_path):
    entries = {"1": {"p": 1, "time": 1.5, "other": {}}}
    text = make_cache(entries, tune_params_keys=["p"]).rstrip()[:-3].rstrip()
    assert text.endswith("}}")
    assert read_text(tmp_path, text).configs == [{"p": 1}]


def test_compressed(tmp_path):
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(make_cache().encode()))
    assert read_pool(tmp_path / "c.json.gz").name == "c"


def test_names_of_parameters_from_their_values(tmp_path):
    pool = read_text(tmp_path, make_cache(tune_params_keys=None))
    assert list(pool.configs[0]) == ["block_size_x", "pad"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({"time": "CompilationFailedConfig"}, "compile_error"),
        ({"time": "RuntimeFailedConfig"}, "launch_error"),
        ({"time": "InvalidConfig"}, "error"),
        ({"time": 1e20}, "error"),
        ({"__error__": "RuntimeFailedConfig"}, "launch_error"),
        ({"__error__": "RuntimeFailedConfig", "time": 1.0}, "launch_error"),
    ],
)
def test_failures(tmp_path, outcome, status):
    entries = {"1": {"p": 1, **outcome}, "2": {"p": 2, "time": 1}}
    pool = read_text(tmp_path, make_cache(entries, tune_params_keys=["p"]))
    assert pool.durations.tolist() == [math.inf, 1.0]
    assert pool.status == [status, "ok"]


def test_repeated_times(tmp_path):
    times = [2.0, 1.0, 4.0, 3.0, 5.0, 6.0]
    entries = {
        "1": {"p": 1, "time": 3.5, "times": times},
        "2": {"p": 2, "time": "RuntimeFailedConfig", "times": []},
    }
    extra = read_text(tmp_path, make_cache(entries, tune_params_keys=["p"])).extra
    assert list(extra.columns) == [
        "duration_p20_ms",
        "duration_p80_ms",
        "duration_rel_sd",
    ]
    assert_allclose(extra.iloc[0], [2.0, 5.0, statistics.stdev(times) / 3.5])
    assert extra.iloc[1].isna().all()


def test_without_repeated_times(tmp_path):
    assert read_text(tmp_path, make_cache()).extra.shape == (3, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no JSON"),
        ('{"a":\n oops', "line 2: no JSON"),
        ("[1, 2]", "no object 'cache'; of JSON files only caches of Kernel Tuner"),
        ('{"results": []}', "no object 'cache'"),
        ('{"cache": {}}', "neither 'tune_params_keys' nor 'tune_params'"),
        (make_cache({}), "the cache has no configs"),
        (make_cache({"1": 5}), "line 20, entry '1': it is no object, but 5"),
        (
            make_cache({"1": {"pad": 0, "time": 1}}),
            "line 20, entry '1', column 'block_size_x': it is missing",
        ),
        (
            make_cache({**ENTRIES, "a": {"block_size_x": 8, "pad": 0}}),
            "line 23, entry 'a', column 'time': it is None",
        ),
        (
            make_cache({"a": {"block_size_x": 8, "pad": 0, "time": -1.0}}),
            "line 20, entry 'a', column 'time': it is -1.0",
        ),
        (
            make_cache({"a": {"block_size_x": 8, "pad": 0, "time": math.nan}}),
            "column 'time': it is nan",
        ),
        (
            make_cache({**ENTRIES, "16,1,": ENTRIES["16,1"]}),
            "line 23, entry '16,1,' repeats line 20, entry '16,1'",
        ),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(PoolFormatError, match=rf"cache\.json.*{message}"):
        read_text(tmp_path, text)
