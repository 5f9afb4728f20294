"""The test bed itself: real compiles and tuning, simulated launches and faults."""

import pytest
import torch
import torch_npu._inductor.runtime.triton_heuristics as heuristics
from npu_kernels import add_kernel, refused_kernel
from ub_bits import ub_bits

N = 1 << 20


@pytest.fixture
def launch():
    x, y, out = (torch.empty(N, device="npu") for _ in range(3))

    def run(sub, block=32768):
        add_kernel[(N // block,)](x, y, out, N, XBLOCK=block, XBLOCK_SUB=sub)

    return run


def tune(function, *shape):
    torch.compile(function)(torch.empty(*shape, device="npu"))


def test_there_is_one_device():
    assert torch.npu.device_count() == 1
    assert torch.npu.get_device_name() == "Ascend910B1"


def test_kernel_compiles_and_launches(bed, launch):
    launch(4096)
    [record] = bed.compile_log()
    assert record.ok
    # Three tiles of 4096 floats, each twice: multibuffer is on by default.
    assert record.required_bits == 3 * 4096 * 32 * 2
    assert bed.launch_count("add_kernel") == 1


def test_tile_that_does_not_fit_is_refused_by_the_real_compiler(bed, launch):
    with pytest.raises(Exception, match="ub overflow"):
        launch(32768)
    [record] = bed.compile_log()
    assert record.error == "ub_overflow"
    assert record.required_bits > record.available_bits == bed.UB_BITS


def test_refused_code_is_an_error_of_the_frontend(bed):
    with pytest.raises(Exception, match="no block pleases"):
        refused_kernel[(1,)](torch.empty(1, device="npu"), XBLOCK=8)
    assert bed.compile_log()[-1].error == "frontend"


def test_injected_compile_failure_can_be_taken_away(bed, launch):
    undo = bed.fail_compile_if(lambda kernel, config: True, required_bits=2_000_000)
    with pytest.raises(Exception, match="injected"):
        launch(2048)
    record = bed.compile_log()[-1]
    assert (record.error, record.required_bits) == ("injected", 2_000_000)
    undo()
    launch(2048)
    assert bed.compile_log()[-1].ok


def test_injected_launch_failure_raises(bed, launch):
    bed.fail_launch_if(lambda kernel, constants, grid: constants["XBLOCK"] == 65536)
    launch(1024)
    with pytest.raises(RuntimeError, match="injected launch failure"):
        launch(1024, block=65536)


def test_injected_device_error_comes_out_once(bed, launch):
    bed.fail_launch_if(lambda kernel, constants, grid: True, at="sync")
    launch(1024)
    with pytest.raises(RuntimeError, match="507015"):
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_fault_of_an_unknown_kind_is_refused(bed):
    with pytest.raises(ValueError, match="'launch' or 'sync'"):
        bed.fail_launch_if(lambda kernel, constants, grid: True, at="later")


def test_events_read_the_virtual_clock(bed, launch):
    bed.set_latency(lambda kernel, constants, grid: 7.0)
    begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    before = bed.clock_ms()
    begin.record()
    launch(4096)
    end.record()
    assert bed.clock_ms() - before == pytest.approx(7.0)
    assert begin.elapsed_time(end) == pytest.approx(7.0)


def test_noise_depends_on_seed_and_repetition(bed):
    constants = {"x0_numel": 4096, "X0BLOCK_SUB": 64}
    one, same, other = (bed.AnalyticLatency(0.1, seed=seed) for seed in (0, 0, 1))
    first = one("k", constants, (4, 1, 1))
    assert first == same("k", constants, (4, 1, 1))
    assert first != other("k", constants, (4, 1, 1))
    assert first != one("k", constants, (4, 1, 1))


def test_copies_between_host_and_device_are_real():
    host = torch.arange(8.0)
    assert torch.equal(host.npu().cpu(), host)


def test_ub_use_is_the_largest_end_address():
    text = """
    %c0 = arith.constant 0 : i64
    %c64 = arith.constant 64 : i64
    %0 = hivm.hir.pointer_cast(%c0) : memref<4xf32, #hivm.address_space<ub>>
    %1 = hivm.hir.pointer_cast(%c64) : memref<2x3xf16, #hivm.address_space<ub>>
    """
    assert ub_bits(text) == -(-(64 * 8 + 6 * 16) // 256) * 256


def test_stock_autotuner_compiles_each_variant_once_and_takes_the_fastest(
    bed, monkeypatch
):
    tuned = []

    class Watched(heuristics.NPUCachingAutotuner):
        def autotune_to_one_config(self, *args, **kwargs):
            super().autotune_to_one_config(*args, **kwargs)
            before = bed.clock_ms()
            self.run(*args, stream=torch.npu.current_stream().npu_stream, **kwargs)
            tuned.append((self.candidate_plan, bed.clock_ms() - before))

    monkeypatch.setattr(heuristics, "NPUCachingAutotuner", Watched)
    tune(lambda x: (x * x).sum(-1), 1024, 512)
    [(plan, ms)] = tuned
    log = bed.compile_log()
    assert len(log) == len(plan["variant_order"])
    assert {record.error for record in log} <= {None, "ub_overflow"}
    assert ms == pytest.approx(min(record.ms for record in bed.launch_log()))
