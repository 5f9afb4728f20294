"""``fasta-learn heuristic evaluate``: how good the decisions of trees are."""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from fasta_learn._cli._heuristic_model import load_model
from fasta_learn._cli._heuristic_parsers import add_folder, add_json, add_step
from fasta_learn._cli._terminal import write
from fasta_learn._text import format_table
from fasta_learn.heuristics import (
    choices_of,
    drift_check,
    evaluate,
    list_installed,
    plot_evaluation,
    read_log,
)

_DRIFTED = 1
# Name and format of each column; of the decided inputs, but for the first two.
_COLUMNS = {
    "policy": ("policy", "{}"),
    "mat1_dtype": ("dtype", "{}"),
    "using_tf32": ("TF32", "{}"),
    "n_inputs": ("inputs", "{:.0f}"),
    "coverage": ("decided", "{:.1%}"),
    "accuracy": ("right", "{:.1%}"),
    "regret": ("regret", "{:.2%}"),
    "regret_low": ("from", "{:.2%}"),
    "regret_high": ("to", "{:.2%}"),
    "slow": ("> 10 % slow", "{:.2%}"),
    "worst": ("worst", "{:.2f}"),
}


def add_parsers(steps: Any) -> None:
    """Add the step to a parser.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    parser = add_step(
        steps,
        "evaluate",
        run,
        purpose="judge models and artifacts on a log, beside always and never padding; "
        "inputs of shapes that a model has learned from are left out",
        example="pad_mm.txt --model pad_mm.joblib --installed",
    )
    parser.add_argument("log", metavar="LOG", help="of 'collect', or of torch")
    parser.add_argument(
        "--model", action="append", default=[], metavar="FILE", help="of 'train'"
    )
    parser.add_argument(
        "--artifact", action="append", default=[], metavar="FILE", help="a module"
    )
    parser.add_argument(
        "--by", choices=["mat1_dtype", "using_tf32"], help="a row for each value"
    )
    parser.add_argument(
        "--drift",
        action="store_true",
        help="tell which artifacts should be trained again; the exit code is 1 then",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the regrets; needs the extra plot"
    )
    parser.add_argument(
        "--installed", action="store_true", help="also the artifacts that are installed"
    )
    add_folder(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate.

    Parameters
    ----------
    args : argparse.Namespace
        The parsed arguments.

    Returns
    -------
    int
        0; 1 if an artifact has drifted and that was asked for.

    Raises
    ------
    MissingExtraError
        Torch is needed for an artifact, or matplotlib for a plot, and not installed.
    OSError, ValueError
        A file can't be used, or no input is left.
    """
    inputs = read_log(args.log).inputs()
    models = {path: load_model(path) for path in args.model}
    for model in models.values():
        inputs = inputs[model.is_unseen(inputs)]
    if not len(inputs):
        raise ValueError(f"the models have learned from every shape of {args.log}.")
    inputs = inputs.reset_index(drop=True)
    artifacts = {path: Path(path) for path in args.artifact}
    if args.installed:
        installed = list_installed(folder=args.folder)
        artifacts |= {f"{a.class_name} {a.hash}": Path(a.path) for a in installed}
    policies = {path: model.heuristic for path, model in models.items()}
    policies |= artifacts
    policies |= {f"always {choice}": choice for choice in choices_of(inputs)}
    if set(choices_of(inputs)) == {"orig", "pad"}:
        policies["torch's benchmark"] = "benchmark"
    table = evaluate(inputs, policies, by=args.by)
    _write_table(table, args)
    return _tell_drift(artifacts, inputs) if args.drift else 0


def _write_table(table: pd.DataFrame, args: argparse.Namespace) -> None:
    if args.plot is not None:
        plot_evaluation(table).figure.savefig(args.plot)
    rows = table.reset_index()
    if args.json:
        write(rows.to_json(orient="records"))
        return
    # People are told what is lost, as by 'train'; programs get the ratio.
    ratios = ["regret", "regret_low", "regret_high"]
    rows[ratios] -= 1.0
    shown = [name for name in _COLUMNS if name in rows]
    header, formats = zip(*(_COLUMNS[name] for name in shown), strict=True)
    cells = [
        [form.format(value) for form, value in zip(formats, row, strict=True)]
        for row in rows[shown].itertuples(index=False)
    ]
    write(format_table(header, cells))


def _tell_drift(artifacts: dict[str, Path], inputs: pd.DataFrame) -> int:
    n_drifted = 0
    for name, path in artifacts.items():
        report = drift_check(path, inputs)
        n_drifted += report.drifted
        reasons = "; ".join(report.reasons)
        write(f"{name}: {f'train again: {reasons}' if report.drifted else 'fits'}")
    return _DRIFTED if n_drifted else 0
