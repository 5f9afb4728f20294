import gc
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import simulated_specs as specs
import torch
from sample_kernels import scale, scale_kernel
from simulated_cuda import illegal_access

from fasta_learn import ActiveConfigSearch
from fasta_learn.exceptions import MissingExtraError
from fasta_learn.oracles import (
    JournaledOracle,
    KernelSpec,
    TimingPlan,
    TritonKernelOracle,
    _triton_device,
    check_oracle,
)

N = 256
BLOCKS = [32, 64, 128, 256, 512]
CONFIGS = [{"BLOCK": block} for block in BLOCKS]
NO_CUTOFF = TimingPlan(cutoff=None)


def arguments():
    x = torch.arange(float(N))
    return {"x": x, "y": torch.zeros(N), "n": N}


@pytest.fixture
def simulated(simulate, monkeypatch):
    def start(**options):
        cuda = simulate(**{"duration": lambda config: 64 / config["BLOCK"], **options})
        clock = specs.OwnClock(cuda)
        monkeypatch.setattr(_triton_device, "CudaClock", lambda device: clock)
        clock.close = lambda: None  # an oracle may open it again
        return cuda

    return start


@pytest.fixture
def make_oracle():
    made = []

    def make(**options):
        options = {"isolate": False, "n_jobs": 1, **options}
        made.append(TritonKernelOracle(scale_kernel, arguments(), (1,), **options))
        return made[-1]

    yield make
    for oracle in made:
        oracle.close()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv(specs.FOLDER, str(tmp_path))
    return tmp_path


def test_oracle_keeps_to_the_interface(simulated, make_oracle):
    simulated()
    check_oracle(make_oracle(timing=NO_CUTOFF), CONFIGS, rtol=0)


def test_oracle_without_lookahead_takes_one_config_after_the_other(
    simulated, make_oracle
):
    simulated()
    oracle = make_oracle(timing=NO_CUTOFF, lookahead=0)
    check_oracle(oracle, CONFIGS, rtol=0, one_by_one=True)


def test_search_finds_the_best(simulated, make_oracle):
    simulated()
    search = ActiveConfigSearch(budget=5, random_state=0)
    search.fit(CONFIGS, oracle=make_oracle())
    assert search.best_config_ == {"BLOCK": 512}
    assert search.best_duration_ == 64 / 512


def test_slow_configs_are_cut_off_by_the_best_so_far(simulated, make_oracle):
    simulated()
    blocks = [64, 32, 128, 64]
    answers = make_oracle().measure({"BLOCK": block} for block in blocks)
    assert [answer.info["cut_off"] for answer in answers] == [False, True, False, True]


def test_other_pool_has_another_best(simulated, make_oracle):
    simulated()
    oracle = make_oracle()
    oracle.measure([{"BLOCK": 512}])
    oracle.open_pool(CONFIGS)
    assert oracle.measure([{"BLOCK": 32}])[0].info["cut_off"] is False


def test_failed_config_cuts_nothing_off(simulated, make_oracle):
    simulated(compute=lambda args: args["BLOCK"] == 32 and scale(args))
    check = {"y": 2 * torch.arange(float(N))}
    wrong, right = make_oracle(check=check).measure([{"BLOCK": 512}, {"BLOCK": 32}])
    assert wrong.status == "wrong_result"
    assert right.ok
    assert right.info["cut_off"] is False


def test_measuring_goes_on_after_a_generator_was_left(simulated, make_oracle):
    simulated()
    oracle = make_oracle(timing=NO_CUTOFF)
    answers = oracle.measure_each(CONFIGS)
    next(answers)
    answers.close()
    assert [a.duration for a in oracle.measure(CONFIGS)] == [64 / b for b in BLOCKS]


def test_prepare_compiles_ahead(simulated, make_oracle):
    cuda = simulated()
    oracle = make_oracle()
    oracle.prepare(CONFIGS[:2])
    oracle.measure([CONFIGS[2]])
    oracle.close()  # waits for what is being compiled
    assert {config["BLOCK"] for config, _ in cuda.compiles} <= set(BLOCKS[:3])
    assert len(cuda.loads) == 1


def test_broken_device_raises_also_after_close(simulated, make_oracle):
    def fault(config, stage):
        if stage == "run" and config["BLOCK"] == 64:
            raise illegal_access()

    simulated(fault=fault)
    oracle = make_oracle()
    answers = oracle.measure(CONFIGS[:2])
    assert [answer.status for answer in answers] == ["ok", "illegal_access"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken the device"):
            oracle.measure(CONFIGS[:1])
        oracle.close()


def test_close_puts_the_arguments_back_and_ends_the_threads(simulated):
    simulated(compute=scale)
    before = threading.active_count()
    args = arguments()
    args["y"].fill_(5.0)
    options = {"isolate": False, "restore_value": ["y"]}
    with TritonKernelOracle(scale_kernel, args, (1,), **options) as oracle:
        oracle.measure(CONFIGS)
    assert torch.equal(args["y"], torch.full((N,), 5.0))
    assert threading.active_count() == before


def test_threads_end_with_their_oracle(simulated):
    simulated()
    before = threading.active_count()
    oracle = TritonKernelOracle(scale_kernel, arguments(), (1,), isolate=False)
    oracle.measure(CONFIGS[:1])
    del oracle
    gc.collect()
    assert threading.active_count() == before


def test_fingerprint_tells_what_is_measured(simulated, make_oracle):
    simulated()
    identity = make_oracle(timing=NO_CUTOFF).fingerprint()
    assert json.loads(json.dumps(identity)) == identity
    assert identity["oracle"] == "TritonKernelOracle"
    assert identity["kernel"]["kernel"] == "scale_kernel"
    assert identity["device"] == "cuda:90"
    assert identity["versions"].keys() >= {"torch", "triton"}
    assert identity["timing"]["cutoff"] is None


@pytest.mark.parametrize(
    "options", [{"timing": NO_CUTOFF}, {"constants": {"num_stages": 1}}]
)
def test_fingerprint_differs_with_what_is_measured(simulated, make_oracle, options):
    simulated()
    assert make_oracle().fingerprint() != make_oracle(**options).fingerprint()


def test_journal_measures_only_what_it_lacks(simulated, make_oracle, tmp_path):
    cuda = simulated()
    first = JournaledOracle(make_oracle(), tmp_path / "journal")
    first.measure(CONFIGS[:2])
    n_loads = len(cuda.loads)
    second = JournaledOracle(make_oracle(), tmp_path / "journal")
    assert len(second.measure(CONFIGS[:3])) == 3
    assert (second.n_replayed, second.n_measured) == (2, 1)
    assert len(cuda.loads) == n_loads + 1


def test_options_are_divided_among_the_devices(make_oracle):
    oracle = make_oracle(isolate=True, devices=[0, 1], n_jobs=6)
    assert (oracle.n_parallel, oracle.lookahead, oracle._n_threads) == (2, 6, 3)
    assert make_oracle(n_jobs=6).lookahead == 12
    assert make_oracle(n_jobs=6, lookahead=2).lookahead == 2
    assert make_oracle(n_jobs=None).lookahead >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": []}, "devices must be a list"),
        ({"devices": [0, 0]}, "devices must be a list"),
        ({"devices": [-1]}, "devices must be a list"),
        ({"devices": "01"}, "devices must be a list"),
        ({"devices": 0}, "devices must be a list"),
        ({"devices": [0, 1], "isolate": False}, "2 devices need isolate=True"),
        ({"n_jobs": 0}, "n_jobs must be a positive int"),
        ({"n_jobs": 1.5}, "n_jobs must be a positive int"),
        ({"n_jobs": True}, "n_jobs must be a positive int"),
        ({"lookahead": -1}, "lookahead must be 'auto' or"),
        ({"lookahead": "many"}, "lookahead must be 'auto' or"),
        ({"compile_timeout": 0}, "compile_timeout must be a positive, finite"),
        ({"run_timeout": np.inf}, "run_timeout must be a positive, finite"),
        ({"run_timeout": None}, "run_timeout must be a positive, finite"),
    ],
)
def test_option_that_is_not_valid_is_an_error(make_oracle, options, message):
    with pytest.raises(ValueError, match=message):
        make_oracle(**options)


def test_hidden_device_is_an_error_at_once(make_oracle, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(ValueError, match="there is no device 1"):
        make_oracle(isolate=True, devices=[0, 1])


def test_without_device_is_an_error_of_one_line(make_oracle):
    with pytest.raises(ValueError, match="finds no device") as error:
        make_oracle().measure(CONFIGS[:1])
    assert "\n" not in str(error.value)


def test_without_triton_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[torch\]"):
        TritonKernelOracle(None, (), (1,))
    with pytest.raises(MissingExtraError, match=r"fasta-learn\[torch\]"):
        TritonKernelOracle.from_spec("module:function")


def make_spec(**options):
    options = {"args": arguments(), "grid": (1,), "configs": CONFIGS, **options}
    return KernelSpec(kernel=scale_kernel, **options)


def test_spec_is_measured_with_all_it_says(simulated):
    simulated(compute=lambda args: None)
    spec = make_spec(
        check={"y": 2 * torch.arange(float(N))}, constants={"num_warps": 2}
    )
    with TritonKernelOracle.from_spec(spec, isolate=False, n_jobs=1) as oracle:
        assert oracle.measure(CONFIGS[:1])[0].status == "wrong_result"
        assert oracle.fingerprint()["kernel"]["constants"].keys() == {"num_warps"}


def test_named_spec_is_loaded_with_its_parameters(simulated, tmp_path):
    simulated()
    (tmp_path / "spec.py").write_text(
        "import torch\n"
        "from sample_kernels import scale_kernel\n"
        "from fasta_learn.oracles import KernelSpec\n"
        "def scaled(n):\n"
        "    args = [torch.zeros(n), torch.zeros(n), n]\n"
        "    configs = [{'BLOCK': 32}]\n"
        "    return KernelSpec(kernel=scale_kernel, args=args, grid=(1,),"
        " configs=configs)\n"
    )
    name = f"{tmp_path / 'spec.py'}:scaled"
    with TritonKernelOracle.from_spec(name, {"n": 48}, isolate=False) as oracle:
        assert oracle.measure(CONFIGS[:1])[0].ok
        assert oracle.fingerprint()["kernel"]["args"]["x"]["shape"] == [48]


def test_parameters_of_a_spec_that_is_no_text_are_an_error():
    with pytest.raises(ValueError, match="named by a text"):
        TritonKernelOracle.from_spec(make_spec(), {"n": 48})


def test_importing_the_oracles_imports_no_framework():
    script = (
        "import sys, fasta_learn.oracles\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_arguments_are_sent_to_the_child(folder, processes):
    with TritonKernelOracle(
        specs.faulty_kernel,
        specs.make_arguments(),
        (1,),
        check={"y": 2 * torch.arange(float(specs.N))},
        n_jobs=1,
    ) as oracle:
        right, wrong = oracle.measure([specs.good(64), specs.bad("wrong")])
        assert oracle.fingerprint()["kernel"]["kernel"] == "faulty_kernel"
    assert right.duration == 16.0
    assert wrong.status == "wrong_result"
    pids = {int(line.split()[0]) for line in (folder / "notes").open()}
    assert os.getpid() not in pids
    assert all(processes.wait_until_gone(pid) for pid in pids)


def test_search_survives_an_illegal_access(folder):
    configs = [specs.good(32), specs.bad("illegal"), specs.good(64), specs.good(128)]
    search = ActiveConfigSearch(budget=4, random_state=0)
    with TritonKernelOracle.from_spec("simulated_specs:faulty", n_jobs=2) as oracle:
        search.fit(configs, oracle=oracle)
    assert search.best_config_ == specs.good(128)
    notes = (folder / "notes").read_text()
    assert notes.count("run illegal") == 1
