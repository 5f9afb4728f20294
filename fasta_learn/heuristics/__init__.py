"""Compile-time decisions learned from measurements, from collection to use.

Nothing is imported before it is used: where ``FASTA_LEARN_HEURISTICS`` is set, this
package is loaded at each ``import torch``.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fasta_learn.heuristics._activate import Activation, activate, deactivate
    from fasta_learn.heuristics._codegen import generate_code
    from fasta_learn.heuristics._codegen_parts import read_metrics
    from fasta_learn.heuristics._collect import CollectReport, collect
    from fasta_learn.heuristics._collect_active import select_inputs
    from fasta_learn.heuristics._collect_benchmark import (
        DeviceDescription,
        PadBenchmark,
    )
    from fasta_learn.heuristics._collect_cuda import CudaPadBenchmark
    from fasta_learn.heuristics._collect_journal import read_device
    from fasta_learn.heuristics._collect_shapes import GemmInput, InputSampler
    from fasta_learn.heuristics._collect_simulated import SimulatedGPU
    from fasta_learn.heuristics._collect_sources import known_inputs, read_shapes
    from fasta_learn.heuristics._evaluate import DriftReport, drift_check, evaluate
    from fasta_learn.heuristics._evaluate_plot import plot_decisions, plot_evaluation
    from fasta_learn.heuristics._features import PadFeatures
    from fasta_learn.heuristics._formulas import (
        FORMULAS,
        PAD_CATEGORICAL,
        PAD_NUMERICAL,
        Formula,
    )
    from fasta_learn.heuristics._heuristic import PadHeuristic
    from fasta_learn.heuristics._inputs import choices_of, group_inputs
    from fasta_learn.heuristics._install import install, list_installed, uninstall
    from fasta_learn.heuristics._install_store import InstalledArtifact
    from fasta_learn.heuristics._install_verify import Verification, verify
    from fasta_learn.heuristics._log import HeuristicLog, LogMetadata
    from fasta_learn.heuristics._log_merging import MergeReport, merge_logs
    from fasta_learn.heuristics._log_reading import read_log, read_logs
    from fasta_learn.heuristics._log_writing import append_log, write_log
    from fasta_learn.heuristics._objectives import (
        decision_costs,
        durations_of,
        log_regret,
        noise_weights,
        production_costs,
    )
    from fasta_learn.heuristics._ranking import ChoiceRanker
    from fasta_learn.heuristics._selection import (
        regret_limit,
        regret_scorer,
        stable_inputs,
    )
    from fasta_learn.heuristics._trees import PadDecisionTree
    from fasta_learn.heuristics._trees_drawing import draw_inputs
    from fasta_learn.heuristics._trees_scores import PadScoreTree
    from fasta_learn.heuristics._trees_teacher import BoostedAdvantage

__all__ = [
    "FORMULAS",
    "PAD_CATEGORICAL",
    "PAD_NUMERICAL",
    "Activation",
    "BoostedAdvantage",
    "ChoiceRanker",
    "CollectReport",
    "CudaPadBenchmark",
    "DeviceDescription",
    "DriftReport",
    "Formula",
    "GemmInput",
    "HeuristicLog",
    "InputSampler",
    "InstalledArtifact",
    "LogMetadata",
    "MergeReport",
    "PadBenchmark",
    "PadDecisionTree",
    "PadFeatures",
    "PadHeuristic",
    "PadScoreTree",
    "SimulatedGPU",
    "Verification",
    "activate",
    "append_log",
    "choices_of",
    "collect",
    "deactivate",
    "decision_costs",
    "draw_inputs",
    "drift_check",
    "durations_of",
    "evaluate",
    "generate_code",
    "group_inputs",
    "install",
    "known_inputs",
    "list_installed",
    "log_regret",
    "merge_logs",
    "noise_weights",
    "plot_decisions",
    "plot_evaluation",
    "production_costs",
    "read_device",
    "read_log",
    "read_logs",
    "read_metrics",
    "read_shapes",
    "regret_limit",
    "regret_scorer",
    "select_inputs",
    "stable_inputs",
    "uninstall",
    "verify",
    "write_log",
]

_HOMES = {
    "_activate": (
        "Activation",
        "activate",
        "deactivate",
    ),
    "_codegen": ("generate_code",),
    "_codegen_parts": ("read_metrics",),
    "_collect": (
        "CollectReport",
        "collect",
    ),
    "_collect_active": ("select_inputs",),
    "_collect_benchmark": (
        "DeviceDescription",
        "PadBenchmark",
    ),
    "_collect_cuda": ("CudaPadBenchmark",),
    "_collect_journal": ("read_device",),
    "_collect_shapes": (
        "GemmInput",
        "InputSampler",
    ),
    "_collect_simulated": ("SimulatedGPU",),
    "_collect_sources": (
        "known_inputs",
        "read_shapes",
    ),
    "_evaluate": (
        "DriftReport",
        "drift_check",
        "evaluate",
    ),
    "_evaluate_plot": (
        "plot_decisions",
        "plot_evaluation",
    ),
    "_features": ("PadFeatures",),
    "_formulas": (
        "FORMULAS",
        "PAD_CATEGORICAL",
        "PAD_NUMERICAL",
        "Formula",
    ),
    "_heuristic": ("PadHeuristic",),
    "_inputs": (
        "choices_of",
        "group_inputs",
    ),
    "_install": (
        "install",
        "list_installed",
        "uninstall",
    ),
    "_install_store": ("InstalledArtifact",),
    "_install_verify": (
        "Verification",
        "verify",
    ),
    "_log": (
        "HeuristicLog",
        "LogMetadata",
    ),
    "_log_merging": (
        "MergeReport",
        "merge_logs",
    ),
    "_log_reading": (
        "read_log",
        "read_logs",
    ),
    "_log_writing": (
        "append_log",
        "write_log",
    ),
    "_objectives": (
        "decision_costs",
        "durations_of",
        "log_regret",
        "noise_weights",
        "production_costs",
    ),
    "_ranking": ("ChoiceRanker",),
    "_selection": (
        "regret_limit",
        "regret_scorer",
        "stable_inputs",
    ),
    "_trees": ("PadDecisionTree",),
    "_trees_drawing": ("draw_inputs",),
    "_trees_scores": ("PadScoreTree",),
    "_trees_teacher": ("BoostedAdvantage",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            module = importlib.import_module(f"{__name__}.{home}")
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
