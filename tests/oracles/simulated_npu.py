"""Stand-ins for a live autotuner of torch_npu, for tests without torch_npu."""

import copy
from types import SimpleNamespace

import numpy as np

from fasta_learn.oracles._npu_kernel import NPUFacts


class VirtualClock:
    """A clock that launches move by themselves, in ms."""

    def __init__(self):
        self.now = 0.0

    def time_batch(self, launch, n_launches, prepare=None):
        durations = []
        for _ in range(n_launches):
            if prepare is not None:
                prepare()
            before = self.now
            launch()
            durations.append(self.now - before)
        return np.array(durations)


class Config:
    """As triton.Config."""

    def __init__(self, pre_hook=None, **kwargs):
        self.kwargs = kwargs
        self.num_warps, self.num_stages, self.pre_hook = 1, 2, pre_hook


def as_dict(config):
    return {**config.kwargs, "num_warps": 1, "num_stages": 2}


class SimulatedAutotuner:
    """As NPUCachingAutotuner: X0BLOCK is an argument at run time, the rest compiled.

    Parameters
    ----------
    configs : list of Config
        The candidates.
    duration : callable
        Of all parameters of a candidate, in ms.
    compile : callable
        Called with a config; may raise.
    knows_fusion : bool
        Whether the compiler has the option enable_vf_fusion.
    """

    def __init__(
        self,
        configs,
        duration=lambda parameters: 1.0,
        compile=lambda config: None,
        knows_fusion=True,
    ):
        self.configs, self.duration, self.compile = configs, duration, compile
        self.knows_fusion = knows_fusion
        self.clock = VirtualClock()
        self.arg_names = ["x", "X0BLOCK"]
        self.inductor_meta = {"kernel_name": "triton_simulated"}
        self.fn = SimpleNamespace(fn=object(), src="def triton_simulated(): ...")
        self.candidate_plan = None
        self.compile_results, self.launchers = [], []
        self.best_candidate_config = self.best_launcher = None
        self.saved, self.compiled, self.launched = [], [], []
        self.n_resets = 0
        self.sync_errors = []
        self.fail_launch = lambda parameters: None

    def save_cache_hook(self, config, nanoseconds):
        self.saved.append((config, nanoseconds))

    def _build_candidate_plan(self, configs):
        variants, entries = {}, []
        for number, config in enumerate(configs):
            full = as_dict(config)
            block = full.get("X0BLOCK")
            own = {
                k: v for k, v in full.items() if k not in ("X0BLOCK", "split_blocks")
            }
            name = variants.setdefault(repr(own), (f"v{len(variants)}", own))[0]
            entries.append(
                {
                    "candidate_id": f"c{number}",
                    "variant_id": name,
                    "full_config": full,
                    "runtime_blocks": (("X0BLOCK", block),),
                }
            )
        return {
            "variant_order": tuple(name for name, _ in variants.values()),
            "variants": {name: {"config": own} for name, own in variants.values()},
            "candidate_entries": tuple(entries),
        }

    def _precompile_variant_configs(self, configs):
        made = []
        for name, item in self._build_candidate_plan(configs)["variants"].items():
            config = Config(
                **{
                    k: v
                    for k, v in item["config"].items()
                    if k not in ("num_warps", "num_stages")
                }
            )
            config._runtime_variant_id = name
            made.append(config)
        return made

    def _precompile_config(self, config):
        self.compiled.append(copy.deepcopy(config.kwargs))
        self.compile(config)
        metadata = SimpleNamespace(shared=1, required_ub_bits=4096)
        return SimpleNamespace(
            config=config,
            kernel=SimpleNamespace(metadata=metadata),
            make_launcher=lambda: self._launcher(config),
        )

    def _launcher(self, config):
        def launcher(*args, stream):
            parameters = {**config.kwargs, "X0BLOCK": args[-1]}
            self.launched.append(parameters)
            self.fail_launch(parameters)
            self.clock.now += self.duration(parameters)

        launcher.config = config
        return launcher

    def parse_triton_ascend_options(self, given, options):
        return {**options, **given} if self.knows_fusion else options

    def _build_runtime_launch_args(self, args, blocks):
        return (*args, *blocks)

    def _refresh_variant_launchers(self):
        self.compiled_candidate_entries = ()

    def _set_best_candidate(self, candidate, launcher):
        self.best_candidate_config = candidate["full_config"]
        self.best_launcher = launcher

    def clone_args(self, *args, **kwargs):
        return args, kwargs

    def reset_to_zero_args(self, *args, **kwargs):
        self.n_resets += 1

    def get_device_interface(self):
        def synchronize(device):
            if self.sync_errors:
                raise self.sync_errors.pop(0)

        return SimpleNamespace(
            current_device=lambda: 0,
            synchronize=synchronize,
            get_raw_stream=lambda device: 7,
        )


def tiles(blocks=(64, 128), subs=(8, 16)):
    """Return configs of a run-time block and a compiled sub-block."""
    return [Config(X0BLOCK=b, X0BLOCK_SUB=s) for b in blocks for s in subs]


def facts(seconds=0.0, **parameters):
    """Return what is known of a compiled variant."""
    return NPUFacts(seconds, None, None, 0, False, **parameters)
