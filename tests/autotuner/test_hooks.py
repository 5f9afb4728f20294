import pytest
import triton
from bench_tuning import CONFIGS, Bench, tuned
from calls import N, grid, make_arguments
from sample_kernels import accumulate, accumulate_kernel, heuristic_kernel


def test_early_pruning_sees_arguments_and_leaves_a_pool(bench):
    seen = []

    def prune(configs, named_args, **kwargs):
        seen.append((named_args["n"], "grid" in kwargs))
        return [config for config in configs if config.kwargs["BLOCK"] <= 128]

    kernel = tuned(bench, prune_configs_by={"early_config_prune": prune})
    kernel[grid](*make_arguments())
    assert seen == [(N, True)]
    assert {block for block, _ in bench.measured} == {64, 128}


def test_pruning_to_one_measures_nothing(bench):
    prune = {"early_config_prune": lambda configs, *_, **__: configs[3:4]}
    kernel = tuned(bench, prune_configs_by=prune)
    kernel[grid](*make_arguments())
    assert kernel.best_config == CONFIGS[3]
    assert bench.measured == []


def test_performance_model_leaves_the_best(bench):
    prune = {"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 3}
    tuned(bench, prune_configs_by=prune)[grid](*make_arguments())
    assert sorted(bench.measured) == [(1024, 1), (1024, 2), (1024, 4)]


def test_hooks_are_called_around_each_launch(bench):
    calls = []

    def before(kwargs, reset_only=False):
        calls.append(("before", kwargs["BLOCK"], reset_only))

    def after(kwargs, exception):
        calls.append(("after", kwargs["BLOCK"], exception))

    kernel = tuned(bench, configs=CONFIGS[:2], pre_hook=before, post_hook=after)
    kernel[grid](*make_arguments())
    assert calls == 2 * [("before", 64, False), ("after", 64, None)] + [
        ("before", 64, True)
    ]


def test_hook_of_a_config_is_called_at_each_launch(bench):
    blocks = []

    def hook(args):
        blocks.append(args["BLOCK"])

    configs = [triton.Config({"BLOCK": b}, pre_hook=hook) for b in (64, 256)]
    kernel = tuned(bench, configs=configs)
    kernel[grid](*make_arguments())
    kernel[grid](*make_arguments())
    assert blocks == [*blocks[:2], 256, 256]
    assert sorted(blocks[:2]) == [64, 256]


def test_restored_values_are_as_after_one_launch(cuda):
    cuda.compute = accumulate
    kernel = tuned(Bench(cuda), accumulate_kernel, restore_value=["y"])
    x, y, n = make_arguments()
    kernel[grid](x, y, n)
    assert y.tolist() == [1.0] * n


def test_reset_values_are_as_after_one_launch(cuda):
    cuda.compute = accumulate
    kernel = tuned(Bench(cuda), accumulate_kernel, reset_to_zero=["y"])
    x, y, n = make_arguments()
    kernel[grid](x, y + 5, n)
    kernel[grid](x, y, n)
    assert y.tolist() == [1.0] * n


def test_heuristics_below(bench, cuda):
    kernel = tuned(bench, heuristic_kernel)
    kernel[grid](*make_arguments())
    assert kernel.best_config.kwargs == {"BLOCK": 256}
    assert cuda.launches[-1]["EVEN"] is True


def test_heuristics_above(bench, cuda):
    kernel = tuned(bench, heuristic_kernel.fn)
    stacked = triton.heuristics({"EVEN": lambda args: args["n"] % 1024 == 0})(kernel)
    stacked[grid](*make_arguments())
    assert kernel.best_config.kwargs == {"BLOCK": 256}
    assert cuda.launches[-1]["EVEN"] is False


def test_names_set_twice_are_refused(bench):
    with pytest.raises(ValueError, match="BLOCK"):
        tuned(bench)[grid](*make_arguments(), BLOCK=64)
