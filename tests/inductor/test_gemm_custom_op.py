"""Live tests: implementations of a custom op are chosen by a search on the CPU."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

PROGRAM = """
import json
import logging
import sys

import torch
from torch._inductor import config
from torch._inductor.kernel.custom_op import (
    CustomOpConfig,
    register_custom_op_autotuning,
)

N_PARTS = [1, 2, 4, 8, 16, 32, 64, 128]


@torch.library.custom_op("fasta_learn_tests::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor, n_parts: int = 1) -> torch.Tensor:
    return a @ b


@product.register_fake
def _(a, b, n_parts=1):
    return a.new_empty(a.shape[0], b.shape[1])


def product_of_parts(a, b, n_parts=1):
    step = a.shape[1] // n_parts
    out = torch.mm(a[:, :step], b[:step])
    for i in range(1, n_parts):
        part = slice(i * step, (i + 1) * step)
        out = torch.addmm(out, a[:, part], b[part])
    return out


def compile_and_check(**settings):
    a, b = torch.randn(64, 1024), torch.randn(1024, 64)
    configs = [CustomOpConfig(product_of_parts, n_parts=n) for n in N_PARTS]
    register_custom_op_autotuning(product, configs=configs)
    op = torch.ops.fasta_learn_tests.product
    settings = {"max_autotune": True, "fx_graph_cache": False, **settings}
    with config.patch(settings):
        out = torch.compile(lambda a, b: op(a, b), dynamic=False)(a, b)
    torch.testing.assert_close(out, a @ b, rtol=1e-3, atol=1e-3)


def report():
    import fasta_learn.inductor

    print()
    print(json.dumps(fasta_learn.inductor.statistics()))
"""

SEARCH = """
import fasta_learn.inductor

with fasta_learn.inductor.enable(gemm_budget=6):
    compile_and_check()
report()
"""

BROKEN = """
import fasta_learn.inductor
import fasta_learn.inductor._gemm_tuning

fasta_learn.inductor._gemm_tuning.collect = None
with fasta_learn.inductor.enable(gemm_budget=6):
    compile_and_check()
report()
"""


@pytest.fixture
def run(tmp_path):
    from children import run_child

    def run(text, **variables):
        return run_child(
            PROGRAM + text, tmp_path, TORCHINDUCTOR_VEC_ISA_OK="1", **variables
        )

    return run


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Run the search once, and give its records and the folder of its caches."""
    from children import run_child

    folder = tmp_path_factory.mktemp("searched")
    records, _ = run_child(
        PROGRAM + SEARCH, folder, FASTA_LEARN_RAISE="1", TORCHINDUCTOR_VEC_ISA_OK="1"
    )
    return records, folder


def test_implementations_are_searched_on_the_cpu(searched):
    ((record,), _) = searched

    assert record["kind"] == "custom_op"
    assert record["source"] == "search"
    assert (record["n_pool"], record["n_measured"]) == (9, 6)
    assert record["device"] == "cpu"
    assert record["dtype"] == "float32"
    assert record["shape"] == "64x1024, 1024x64"


def test_one_that_ran_was_chosen(searched):
    ((record,), _) = searched
    assert 0 < record["best_ms"] <= record["stock_ms"]
    assert record["n_failed"] == 0
    assert "product" in record["winner"]


def test_a_second_process_measures_nothing(searched):
    from children import run_child

    (first,), folder = searched
    (second,), _ = run_child(
        PROGRAM + SEARCH, folder, FASTA_LEARN_RAISE="1", TORCHINDUCTOR_VEC_ISA_OK="1"
    )

    assert second["source"] == "store"
    assert second["n_measured"] == 0
    assert second["winner"] == first["winner"]
    assert second["best_ms"] == first["best_ms"]


def test_a_fault_of_ours_is_no_fault_of_the_program(run):
    records, errors = run(BROKEN)

    assert records == []
    assert errors.count("tuning of gemm failed") == 1
