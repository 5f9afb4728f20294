import contextlib
import sys
import types
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from fasta_learn.oracles import _npu_timers
from fasta_learn.oracles._npu_timers import (
    MsptiTimer,
    ProfilerTimer,
    TimerError,
    choose_backend,
    read_kernel_details,
    split_rows,
)

MSPTI = "torch_npu._inductor.profiler"
HEURISTICS = "torch_npu._inductor.runtime.triton_heuristics"


@pytest.fixture
def install(monkeypatch):
    """Put a module with all its parents into the place of the real ones."""

    def put(name, **contents):
        parts = name.split(".")
        for end in range(1, len(parts)):
            parent = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def write_table(folder, rows, names="Name,Start Time(us),Duration(us)"):
    path = folder / "a_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    path.mkdir(parents=True)
    (path / "kernel_details.csv").write_text("\n".join([names, *rows]) + "\n")


def test_rounds_are_given_to_their_calls_in_ms():
    first, second = split_rows([1000, 2000, 3000, 4000, 5000, 6000], 2, 3)
    assert_allclose(first, [1, 3, 5])
    assert_allclose(second, [2, 4, 6])


@pytest.mark.parametrize("n_rows", [0, 5, 7])
def test_wrong_number_of_rows_shifts_nothing(n_rows):
    with pytest.raises(TimerError, match=f"{n_rows} durations of 6 launches"):
        split_rows([1.0] * n_rows, 2, 3)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_rows_that_are_no_durations_are_refused(value):
    with pytest.raises(TimerError, match="negative or no number"):
        split_rows([1.0, value], 2, 1)


def test_table_is_read_in_the_order_of_the_launches(tmp_path):
    write_table(tmp_path, ["triton_k,20,5", "ZerosLike,10,99", "triton_k_mix,15,4"])
    assert read_kernel_details(tmp_path, "triton_k") == [4.0, 5.0]


def test_missing_table_is_an_error_of_the_timer(tmp_path):
    with pytest.raises(TimerError, match="0 tables"):
        read_kernel_details(tmp_path, "triton_k")


def test_unreadable_table_is_an_error_of_the_timer(tmp_path):
    write_table(tmp_path, ["triton_k,1,N/A"])
    with pytest.raises(TimerError, match="can't be read"):
        read_kernel_details(tmp_path, "triton_k")


def make_mspti(durations, n_missing=0):
    """As torch_npu's: means in us, and a RuntimeError if records are missing."""

    def benchmark(functions, warmup, active, filter_list):
        assert filter_list == ["triton_k"]
        for function in functions:
            for _ in range(warmup + active):
                function()
        if n_missing:
            raise RuntimeError("A call to kernel_func should result in exactly one ...")
        return durations

    return benchmark


def test_mspti_gives_means_in_ms(install):
    install(MSPTI, mspti_batch_benchmark=make_mspti([1500.0, 500.0]))
    timings = MsptiTimer().time([lambda: None, lambda: None], "triton_k")
    assert_allclose(timings, [[1.5], [0.5]])


def test_mspti_runs_each_call_35_times(install):
    calls = []
    install(MSPTI, mspti_batch_benchmark=make_mspti([1.0]))
    MsptiTimer().time([lambda: calls.append(1)], "triton_k")
    assert len(calls) == 35


def test_missing_records_are_an_error_of_the_timer(install):
    install(MSPTI, mspti_batch_benchmark=make_mspti([1.0], n_missing=1))
    with pytest.raises(TimerError, match="exactly one"):
        MsptiTimer().time([lambda: None], "triton_k")


def test_failing_launch_under_mspti_is_none(install):
    install(MSPTI, mspti_batch_benchmark=make_mspti([1.0]))

    def launch():
        raise RuntimeError("error code is 507015")

    with pytest.raises(RuntimeError, match="507015") as caught:
        MsptiTimer().time([launch], "triton_k")
    assert not isinstance(caught.value, TimerError)


@pytest.fixture
def profile(install, monkeypatch):
    """Install a profiler that writes what it is told."""

    def put(rows_of):
        @contextlib.contextmanager
        def create_profiler(path, wait, warmup, active, repeat, skip_first):
            steps = []
            yield types.SimpleNamespace(step=lambda: steps.append(1))
            assert len(steps) >= skip_first + wait + warmup + active
            write_table(Path(path), rows_of(active))

        install(HEURISTICS, create_profiler=create_profiler)
        npu = types.SimpleNamespace(synchronize=lambda: None)
        monkeypatch.setattr(_npu_timers, "import_npu", lambda: npu)

    return put


def test_profiler_gives_ten_durations_of_each_call(profile):
    profile(
        lambda active: [
            f"triton_k,{2 * i + j},{1000 * (j + 1)}"
            for i in range(active)
            for j in (0, 1)
        ]
    )
    timings = ProfilerTimer().time([lambda: None, lambda: None], "triton_k")
    assert_allclose(timings, [[1.0] * 10, [2.0] * 10])


def test_profiler_that_lost_a_row_is_not_trusted(profile):
    profile(lambda active: [f"triton_k,{i},1000" for i in range(2 * active - 1)])
    with pytest.raises(TimerError, match="19 durations of 20 launches"):
        ProfilerTimer().time([lambda: None, lambda: None], "triton_k")


@pytest.fixture
def mspti_is_ready(monkeypatch):
    monkeypatch.setitem(
        sys.modules,
        "mspti",
        types.SimpleNamespace(__spec__=types.SimpleNamespace(), __name__="mspti"),
    )
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libmspti.so")


def test_auto_is_events_without_mspti():
    assert choose_backend("auto") == "events"


@pytest.mark.usefixtures("mspti_is_ready")
def test_auto_is_mspti_where_it_is_ready():
    assert choose_backend("auto") == "mspti"


def test_no_timer_spoils_a_profile_that_is_being_recorded(install, mspti_is_ready):
    class ProfPathCreator:
        is_prof_inited = True

    install(
        "torch_npu.profiler._profiler_path_creator", ProfPathCreator=ProfPathCreator
    )
    assert choose_backend("auto") == "events"
    with pytest.raises(ValueError, match="a profiler is recording"):
        choose_backend("profiler")


def test_mspti_that_is_not_installed_is_refused():
    with pytest.raises(ValueError, match="mspti, which comes with CANN"):
        choose_backend("mspti")


@pytest.mark.usefixtures("mspti_is_ready")
def test_mspti_that_is_not_preloaded_is_refused(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    with pytest.raises(ValueError, match="LD_PRELOAD"):
        choose_backend("mspti")
