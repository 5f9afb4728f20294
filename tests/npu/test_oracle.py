"""NPUKernelOracle with the real compilers; durations are simulated."""

import json

import pytest
import torch
import triton
from npu_kernels import add_kernel, refused_kernel

from fasta_learn import ActiveConfigSearch
from fasta_learn.configs import TileSpace
from fasta_learn.oracles import NPUKernelOracle, check_oracle

N = 1 << 20
OVERFLOW_BITS = 2 * 32768 * 32  # two inputs at a time, without multi-buffering


def grid(parameters):
    return (-(-N // parameters["XBLOCK"]),)


def tile(sub, block=32768):
    return {"XBLOCK": block, "XBLOCK_SUB": sub}


@pytest.fixture
def make_oracle():
    made = []
    add_kernel.cache.clear()  # of what earlier tests have compiled, in memory

    def make(kernel=add_kernel, args=None, grid=grid, **options):
        if args is None:
            args = [*(torch.empty(N, device="npu") for _ in range(3)), N]
        made.append(NPUKernelOracle(kernel, args, grid, **{"n_jobs": 2, **options}))
        return made[-1]

    yield make
    for oracle in made:
        oracle.close()


def test_durations_are_those_of_the_launches_in_ms(bed, make_oracle):
    bed.set_latency(lambda kernel, constants, grid: constants["XBLOCK_SUB"] / 1024)
    first, second = make_oracle().measure([tile(1024), tile(2048)])
    assert first.duration == first.duration_p20 == pytest.approx(1.0)
    assert second.duration == pytest.approx(2.0)
    assert first.info["timer"] == "events"


def test_candidates_of_a_variant_compile_once(bed, make_oracle):
    pool = [tile(sub, block) for block in (16384, 32768) for sub in (1024, 2048)]
    answers = make_oracle().measure(pool)
    assert len(bed.compile_log()) == 2
    assert [answer.info["variant"] for answer in answers] == [0, 1, 0, 1]
    assert [answer.compile_seconds > 0 for answer in answers] == [True] * 2 + [
        False
    ] * 2
    assert len({answer.duration for answer in answers}) == 4


def test_block_that_is_one_is_another_variant(bed, make_oracle):
    # Triton makes a constant of an argument that is 1.
    oracle = make_oracle(grid=(1,))
    oracle.measure([tile(1024, block) for block in (1, 16, 32, 24)])
    constants = [record.config.get("XBLOCK") for record in bed.compile_log()]
    assert sorted(constants, key=str) == [1, None, None]  # 1; times 16; others


def test_overflow_of_the_unified_buffer_tells_how_much_it_needs(make_oracle):
    [answer] = make_oracle().measure([tile(32768)])
    assert answer.status == "out_of_resources"
    assert answer.info["required_bits"] == OVERFLOW_BITS
    assert answer.info["available_bits"] == 192 * 1024 * 8
    assert answer.reason.startswith("ub overflow")
    assert answer.compile_seconds > 0


def test_info_tells_what_a_config_needs_that_fits(make_oracle):
    [answer] = make_oracle().measure([tile(4096)])
    assert answer.info["required_bits"] == 3 * 4096 * 32 * 2


def test_other_compile_failures_have_their_reason(bed, make_oracle):
    bed.fail_compile_if(lambda kernel, config: config["XBLOCK_SUB"] == 1024)
    failed, fine = make_oracle().measure([tile(1024), tile(2048)])
    assert failed.status == "compile_error"
    assert "injected compile failure" in failed.reason
    assert fine.ok


def test_refused_kernel_is_a_compile_error(make_oracle):
    oracle = make_oracle(refused_kernel, [torch.empty(1, device="npu")], (1,))
    [answer] = oracle.measure([{"XBLOCK": 8}])
    assert answer.status == "compile_error"
    assert "no block pleases this kernel" in answer.reason


def test_wrong_call_is_an_error_of_that_config_only(make_oracle):
    pool = [{"XBLOCK_SUB": 1024}, {**tile(1024), "no_option": 1}, "text", tile(1024)]
    answers = make_oracle().measure(pool)
    assert [answer.status for answer in answers] == ["error"] * 3 + ["ok"]
    assert "XBLOCK" in answers[0].reason
    assert "no_option" in answers[1].reason


def test_failed_launch_fails_its_config_only(bed, make_oracle):
    bed.fail_launch_if(lambda kernel, constants, grid: constants["XBLOCK"] == 16384)
    failed, fine = make_oracle().measure([tile(1024, 16384), tile(1024)])
    assert failed.status == "launch_error"
    assert "injected launch failure" in failed.reason
    assert fine.ok


def test_device_error_fails_its_config_only(bed, make_oracle):
    bed.fail_launch_if(
        lambda kernel, constants, grid: constants["XBLOCK"] == 16384, at="sync"
    )
    failed, fine = make_oracle().measure([tile(1024, 16384), tile(1024)])
    assert failed.status == "illegal_access"
    assert failed.info["code"] == 507015
    assert fine.ok


def test_grid_that_the_runtime_cannot_take_fails(make_oracle):
    [answer] = make_oracle().measure([tile(1, block=8)])
    assert answer.status == "launch_error"
    assert "131072 programs" in answer.reason


def test_wrong_result_fails(make_oracle):
    [answer] = make_oracle(check=lambda arguments: False).measure([tile(1024)])
    assert answer.status == "wrong_result"


def test_hooks_and_options_of_a_triton_config(bed, make_oracle):
    seen = []
    config = triton.Config(
        tile(1024), num_warps=1, pre_hook=lambda arguments: seen.append(arguments)
    )
    config.kwargs["multibuffer"] = False
    [answer] = make_oracle().measure([config])
    assert answer.ok
    assert answer.info["required_bits"] == 2 * 1024 * 32  # no second copy
    assert seen[0]["n"] == N
    assert bed.launch_log()[-1].constants["multibuffer"] is False


def test_prepared_variants_are_not_compiled_again(bed, make_oracle):
    oracle = make_oracle()
    pool = [tile(1024), tile(2048), tile(4096)]
    oracle.prepare(pool)
    oracle.measure(pool)
    oracle.close()
    assert len(bed.compile_log()) == 3


def test_slow_config_is_cut_off(bed, make_oracle):
    bed.set_latency(lambda kernel, constants, grid: 20.0 / (1 + constants["XBLOCK"]))
    fast, slow = make_oracle().measure([tile(1024, 65536), tile(1024, 16384)])
    assert not fast.info["cut_off"]
    assert slow.info["cut_off"]


def test_it_keeps_to_the_interface(make_oracle):
    pool = [tile(sub, block) for block in (16384, 32768) for sub in (1024, 32768)]
    check_oracle(make_oracle(), pool, rtol=0, one_by_one=True)


def test_only_an_oracle_of_an_autotuner_adopts(make_oracle):
    with pytest.raises(ValueError, match="from_autotuner"):
        make_oracle().adopt(tile(1024))


def test_fingerprint_names_kernel_device_and_versions(make_oracle):
    found = json.loads(json.dumps(make_oracle().fingerprint()))
    assert found["device"] == "Ascend910B1"
    assert found["kernel"]["kernel"] == "add_kernel"
    assert found["versions"]["torch_npu"] == "2.13.0"
    assert found["timer"] == "events"


def test_tiles_that_fill_the_unified_buffer_fit(make_oracle):
    # The kernel holds three tiles, so that the budget is met exactly.
    space = TileSpace.ascend({"x": N}, n_tensors=3)
    bits = {c["XBLOCK_SUB"] * 3 * 32 * (1 + c["multibuffer"]) for c in space}
    largest = [c for c in space if c["XBLOCK_SUB"] in (8192, 16384)]
    answers = make_oracle().measure(largest)
    assert all(answer.ok for answer in answers)
    assert max(bits) == max(answer.info["required_bits"] for answer in answers)


def test_search_finds_the_fastest_of_a_pool_of_tiles(bed, make_oracle):
    space = TileSpace.ascend({"x": N}, n_tensors=1)  # too few: some overflow
    oracle = make_oracle()
    search = ActiveConfigSearch(budget=24, random_state=0).fit(space, oracle=oracle)
    durations = [answer.duration for answer in oracle.measure(space)]
    assert max(durations) == float("inf")
    assert search.best_duration_ <= 1.02 * min(durations)
