"""``fasta-learn heuristic evaluate``: how good the decisions of trees are."""

import argparse
from typing import Any

import pandas as pd

from fasta_learn._cli._heuristic_model import load_model
from fasta_learn._cli._heuristic_parsers import add_folder, add_json, add_step
from fasta_learn._cli._text import write
from fasta_learn.heuristics import evaluate, list_installed, read_log


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
    parser.add_argument("log", metavar="LOG")
    parser.add_argument("--model", action="append", default=[], help="of 'train'")
    parser.add_argument(
        "--artifact", action="append", default=[], metavar="FILE", help="a module"
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
        0.

    Raises
    ------
    OSError, ValueError
        A file can't be used, or no input is left.
    """
    inputs = read_log(args.log).inputs()
    models = {path: load_model(path) for path in args.model}
    for model in models.values():
        inputs = inputs[model.is_unseen(inputs)]
    if not len(inputs):
        raise ValueError(f"the models have learned from every shape of {args.log}.")
    policies: dict[str, Any] = {path: m.heuristic for path, m in models.items()}
    policies |= {path: path for path in args.artifact}
    if args.installed:
        installed = list_installed(folder=args.folder)
        policies |= {artifact.class_name: artifact.path for artifact in installed}
    table = evaluate(inputs.reset_index(drop=True), policies)
    write(_to_json(table) if args.json else f"{len(inputs)} inputs\n{_to_text(table)}")
    return 0


def _to_json(table: pd.DataFrame) -> str:
    return table.to_json(orient="records")


def _to_text(table: pd.DataFrame) -> str:
    return table.to_string(index=False, float_format="{:.4f}".format)
