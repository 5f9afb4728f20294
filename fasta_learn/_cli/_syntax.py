"""What can be written on the command line, read from its parsers."""

import argparse
from dataclasses import dataclass

from fasta_learn._cli._parsers import list_commands, walk

_KINDS = {
    "file": {"CSV", "FILE", "HTML", "LOG", "MODEL", "SPEC"},
    "folder": {"DIR", "FOLDER"},
    "pool": {"POOL"},
}


@dataclass(frozen=True)
class Argument:
    """An option, or what stands without one.

    Attributes
    ----------
    flags : tuple of str
        Names of the option; empty for what stands without one.
    purpose : str
        What it does, in one line.
    name : str
        Name of its value.
    n_values : {"none", "one", "many"}
        How many values follow.
    choices : tuple of str
        The values, if they are known.
    kind : {"file", "folder", "pool", ""}
        What the values are.
    repeats : bool
        Whether the option may be given several times.
    """

    flags: tuple[str, ...]
    purpose: str
    name: str
    n_values: str
    choices: tuple[str, ...]
    kind: str
    repeats: bool


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes
    ----------
    path : tuple of str
        The commands that lead to it.
    commands : dict of str to str
        Names of its own commands, and what they do.
    options : list of Argument
        Its options.
    values : list of Argument
        What stands without an option.
    """

    path: tuple[str, ...]
    commands: dict[str, str]
    options: list[Argument]
    values: list[Argument]


def read_syntax(parser: argparse.ArgumentParser) -> list[Command]:
    """Return what a parser and those of its commands understand.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.

    Returns
    -------
    list of Command
        The first is the parser itself.
    """
    return [_read_command(path, command) for path, command in walk(parser)]


def _read_command(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Command:
    arguments = [
        _read_argument(action)
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
    ]
    return Command(
        path,
        {name: _one_line(text) for name, text in list_commands(parser).items()},
        [argument for argument in arguments if argument.flags],
        [argument for argument in arguments if not argument.flags],
    )


def _read_argument(action: argparse.Action) -> Argument:
    name = str(action.metavar or action.dest.upper())
    many = action.nargs in ("+", "*")
    kinds = [kind for kind, names in _KINDS.items() if name in names]
    return Argument(
        tuple(action.option_strings),
        _one_line((action.help or "") % vars(action)),
        name,
        "none" if action.nargs == 0 else "many" if many else "one",
        tuple(map(str, action.choices or ())),
        kinds[0] if kinds else "",
        isinstance(action, argparse._AppendAction),
    )


def _one_line(text: str) -> str:
    """Return the first sentence, without what stands in parentheses at its end."""
    text = " ".join(text.split()).partition("; ")[0].partition(". ")[0]
    return text.partition(" (default:")[0].rstrip(".")
