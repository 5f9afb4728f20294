"""``fasta-learn heuristic train, generate``: from a log to a module for torch."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fasta_learn._cli._arguments import parse_count, parse_seed
from fasta_learn._cli._heuristic_model import (
    TrainedModel,
    hash_inputs,
    load_model,
    save_model,
    sorted_sizes,
)
from fasta_learn._cli._heuristic_parsers import add_step
from fasta_learn._cli._terminal import write
from fasta_learn._text import format_pairs, format_share
from fasta_learn.heuristics import (
    HeuristicLog,
    PadDecisionTree,
    PadHeuristic,
    PadScoreTree,
    evaluate,
    generate_code,
    read_device,
    read_log,
    stable_inputs,
)

_TARGETS = ("learned_heuristic", "pad_mm_policy")
_LEAVES = {"decision": 100, "score": 200}


def add_parsers(steps: Any) -> None:
    """Add the steps to a parser.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    _add_train(steps)
    _add_generate(steps)


def _add_train(steps: Any) -> None:
    parser = add_step(
        steps,
        "train",
        _train,
        purpose="learn a tree from a log",
        example="pad_mm.txt -o pad_mm.joblib --max-regret 1.002",
    )
    parser.add_argument("log", metavar="LOG", help="of 'collect', or of torch")
    parser.add_argument(
        "-o", "--output", required=True, metavar="MODEL", help="where to write it"
    )
    _add_tree(parser)
    parser.add_argument(
        "--hold-out",
        type=_parse_share,
        default=0.2,
        metavar="SHARE",
        help="of the shapes are not learned from, and judged (default: 0.2)",
    )
    parser.add_argument("--seed", type=parse_seed, default=0)


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--route",
        choices=["decision", "score"],
        default="decision",
        help="a tree that decides, or one that predicts a score of each choice",
    )
    parser.add_argument(
        "--objective",
        choices=["cost", "production", "upstream"],
        default="cost",
        help="lost time; what torch's benchmark decides; PyTorch's own recipe",
    )
    parser.add_argument(
        "--max-leaves",
        type=parse_count,
        metavar="N",
        help="default: 100, or 200 with --route score",
    )
    parser.add_argument(
        "--max-regret",
        type=_parse_ratio,
        metavar="R",
        help="be unsure where it takes that to keep the mean slowdown below R, such as "
        "1.002 (default: always decide)",
    )
    parser.add_argument(
        "--no-teacher", action="store_true", help="grow the tree on measurements alone"
    )


def _add_generate(steps: Any) -> None:
    parser = add_step(
        steps,
        "generate",
        _generate,
        purpose="write a trained tree as a Python module for torch",
        example="pad_mm.joblib -o _PadMMH200.py",
    )
    parser.add_argument("model", metavar="MODEL", help="a file of 'train'; trust it")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="where to write it"
    )
    parser.add_argument(
        "--target",
        choices=_TARGETS,
        default=_TARGETS[0],
        help="what AutoHeuristic loads, or a policy for later versions of torch",
    )
    parser.add_argument(
        "--class-name", metavar="NAME", help="name of the class (default: by the file)"
    )


def _parse_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 1 <= ratio < 10:
        raise argparse.ArgumentTypeError(f"{text!r} is no ratio of at least 1")
    return ratio


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of at least 0, below 1")
    return share


def _train(args: argparse.Namespace) -> int:
    log = read_log(args.log)
    inputs = log.inputs()
    held_out = _hold_out(inputs, args.hold_out, args.seed)
    learned = inputs[~held_out].reset_index(drop=True)
    if args.route == "score" and args.objective == "upstream":
        learned = stable_inputs(learned)
    start = time.perf_counter()
    heuristic = PadHeuristic(_make_tree(args), random_state=args.seed).fit(learned)
    seconds = time.perf_counter() - start
    judged = inputs[held_out]
    model = TrainedModel(
        heuristic=heuristic,
        metrics=_measure(judged, heuristic) if len(judged) else {},
        metadata=log.metadata,
        device=read_device(args.log),
        data_hash=hash_inputs(learned),
        n_inputs=len(learned),
        shapes=np.unique(sorted_sizes(learned), axis=0),
    )
    save_model(model, args.output)
    write(_report(log, model, len(judged), seconds))
    return 0


def _hold_out(inputs: pd.DataFrame, share: float, seed: int) -> np.ndarray:
    groups = np.random.default_rng(seed).permutation(inputs["group"].unique())
    return inputs["group"].isin(groups[: round(share * len(groups))]).to_numpy()


def _make_tree(args: argparse.Namespace) -> Any:
    options: dict[str, Any] = {
        "objective": args.objective,
        "max_regret": args.max_regret,
        "max_leaf_nodes": args.max_leaves or _LEAVES[args.route],
    }
    if args.route == "score":
        if args.objective == "production":
            raise ValueError("--route score knows no objective production.")
        return PadScoreTree(**options)
    teacher = args.objective == "cost" and not args.no_teacher
    return PadDecisionTree(teacher="boosting" if teacher else None, **options)


def _measure(held_out: pd.DataFrame, heuristic: PadHeuristic) -> dict[str, float]:
    table = evaluate(held_out, {"tree": heuristic})
    names = ("coverage", "accuracy", "regret", "slow", "worst")
    return {name: float(table[name].iloc[0]) for name in names}


def _report(
    log: HeuristicLog, model: TrainedModel, n_held_out: int, seconds: float
) -> str:
    found = model.metrics
    pairs = [
        ("log", f"{len(log)} rows, {len(log.problems)} lines that can't be read"),
        ("learned", f"from {model.n_inputs} inputs in {seconds:.1f} s"),
        ("leaves", str(model.heuristic.tree_.n_leaves_)),
    ]
    if found:
        pairs += [
            ("held out", f"{n_held_out} inputs of other shapes"),
            ("decided", f"{format_share(found['coverage'])} of them"),
        ]
    if found and found["coverage"] > 0:
        pairs += [
            (
                "regret",
                f"{100 * found['regret'] - 100:.2f} % over the best choice in "
                f"geometric mean, {found['worst']:.2f} times the best at worst",
            ),
            ("slow", f"{format_share(found['slow'])} over 10 % slower than the best"),
        ]
    return format_pairs(pairs)


def _generate(args: argparse.Namespace) -> int:
    model = load_model(args.model)
    name = args.class_name or Path(args.output).stem.lstrip("_")
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of a class; give --class-name.")
    code = generate_code(
        model.heuristic,
        target=args.target,
        metadata=model.metadata,
        name=name,
        metrics=model.metrics,
        data_hash=model.data_hash,
        device=None if model.device is None else model.device.name,
    )
    Path(args.output).write_text(code, encoding="utf-8")
    write(f"wrote {name}, {model.heuristic.tree_.n_leaves_} leaves: {args.output}")
    return 0
