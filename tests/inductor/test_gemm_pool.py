"""Tests of the pool behind Inductor's choices, with stand-ins for choices."""

from types import SimpleNamespace

import pytest


class Caller:
    """One of Inductor's choices, which has parameters if it is one of a custom op."""

    def __init__(self, name, **parameters):
        self.name, self.description = name, "of a test"
        self.annotations = {}
        if parameters:
            self.decomposition = lambda: None
            self.decomposition_kwargs = parameters

    def hash_key(self):
        return self.name


def collect(*choices):
    from fasta_learn.inductor._gemm_pool import collect

    return collect(choices)


def test_parameters_become_configs():
    pool = collect(Caller("a", n=1, mode="fast"), Caller("b", n=2, mode="slow"))
    assert [contender.config for contender in pool] == [
        {"n": 1, "mode": "fast"},
        {"n": 2, "mode": "slow"},
    ]


def test_what_all_have_in_common_is_left_out():
    pool = collect(Caller("a", n=1, k=3), Caller("b", n=2, k=3))
    assert [contender.config for contender in pool] == [{"n": 1}, {"n": 2}]


def test_what_not_all_have_is_left_out():
    pool = collect(Caller("a", n=1, k=3), Caller("b", n=2))
    assert [contender.config for contender in pool] == [{"n": 1}, {"n": 2}]


def test_what_is_no_scalar_is_left_out():
    pool = collect(Caller("a", n=1, k=[1]), Caller("b", n=2, k=None))
    assert [contender.config for contender in pool] == [{"n": 1}, {"n": 2}]


def test_extern_kernels_have_no_config():
    pool = collect(Caller("extern"), Caller("a", n=1), Caller("b", n=2))
    assert [contender.config for contender in pool] == [None, {"n": 1}, {"n": 2}]


def test_choices_that_can_not_be_told_apart_are_all_measured():
    pool = collect(Caller("a", n=1), Caller("b", n=1), Caller("c", n=2))
    assert [contender.config for contender in pool] == [{"n": 1}, None, {"n": 2}]


def test_a_choice_that_comes_twice_is_there_once():
    pool = collect(Caller("a", n=1), Caller("a", n=1), Caller("b", n=2))
    assert len(pool) == 2


def test_the_choice_itself_is_what_is_made():
    from fasta_learn.inductor._gemm_pool import render

    choice = Caller("a", n=1)
    (contender,) = collect(choice)
    assert render(contender) is choice
    assert contender.label == "a of a test"


def test_a_key_is_the_same_in_every_process():
    (contender,) = collect(Caller("a", n=1))
    assert contender.key == "choice:ac8d8342bbb2362d"


@pytest.mark.parametrize(
    "setting",
    [
        "deterministic",
        "distributed_max_autotune_gemm",
        "pipeline_max_autotune_gemm",
        "profile_bandwidth_with_do_bench_using_profiling",
        "remote_gemm_autotune_cache",
    ],
)
def test_nothing_is_held_back_where_inductor_chooses_otherwise(setting):
    from torch._inductor import config

    from fasta_learn.inductor._gemm_pool import may_hold_back

    with config.patch(max_autotune=True):
        assert may_hold_back()
        with config.patch({setting: True}):
            assert not may_hold_back()


def test_nothing_is_held_back_without_max_autotune():
    from torch._inductor import config

    from fasta_learn.inductor._gemm_pool import is_here, may_hold_back

    with config.patch(max_autotune=False, max_autotune_gemm=False):
        assert is_here()
        assert not may_hold_back()


def test_extern_kernels_alone_are_left_as_they_are():
    from torch._inductor import config

    from fasta_learn.inductor._gemm_pool import make_finalize

    extern = SimpleNamespace(template=SimpleNamespace(uid="aten::mm"), annotations={})
    finalize = make_finalize(lambda handler, generators, *rest: [extern])
    with config.patch(max_autotune=True):
        chosen = finalize(None, {}, None, [extern.template], "mm")

    assert chosen == [extern]
    assert extern.annotations == {}


@pytest.mark.parametrize(
    ("tile", "step", "n_stages", "n_warps", "expected"),
    [
        ((128, 128), 16, 5, 4, True),
        ((128, 256), 16, 2, 8, True),
        ((128, 128), 16, 5, 8, True),
        ((128, 64), 16, 5, 8, False),
        ((128, 128), 32, 5, 4, False),
        ((128, 128), 16, 1, 4, False),
    ],
)
def test_what_keeps_a_compiler_busy(tile, step, n_stages, n_warps, expected):
    from fasta_learn.inductor._gemm_pool import compiles_slowly

    config = {"BLOCK_M": tile[0], "BLOCK_N": tile[1], "BLOCK_K": step}
    config |= {"num_stages": n_stages, "num_warps": n_warps}
    assert compiles_slowly(config) == expected


def test_a_template_without_tiles_is_compiled_as_any_other():
    from fasta_learn.inductor._gemm_pool import compiles_slowly

    assert not compiles_slowly({"num_stages": 5, "num_warps": 4})
