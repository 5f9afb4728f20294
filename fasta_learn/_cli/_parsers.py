"""Parsers of commands: help with examples, errors with a suggestion."""

import argparse
import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from fasta_learn._cli._errors import fail

BAD_USAGE = 2


class Parser(argparse.ArgumentParser):
    """Refuses bad usage in one line, and abbreviations, which new options break."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """End the process with a line about the error."""
        self.exit(fail(f"{_suggest(message)} (see '{self.prog} --help')", BAD_USAGE))


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves examples as they are."""

    def add_argument(self, action: argparse.Action) -> None:
        """Make room for an argument in the column of names."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # argparse forgets that the names of commands are indented twice.
            longest = max(map(len, action.choices)) + 2 * self._indent_increment
            self._action_max_length = max(self._action_max_length, longest)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = []
        for part in text.split("\n\n"):
            is_example = "\n  " in part
            parts.append(
                part if is_example else super()._fill_text(part, width, indent)
            )
        return "\n\n".join(parts)


def add_command(
    subparsers: Any,
    name: str,
    *,
    purpose: str,
    description: str,
    examples: Sequence[str],
    more: str = "",
) -> argparse.ArgumentParser:
    """Add the parser of a command.

    Parameters
    ----------
    subparsers : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    name : str
        Name of the command.
    purpose : str
        What it does, in a phrase for the list of commands.
    description : str
        What it does, in a paragraph.
    examples : sequence of str
        Arguments of ``fasta-learn`` that work.
    more : str, default=""
        A paragraph after the examples.

    Returns
    -------
    argparse.ArgumentParser
        The parser.
    """
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=purpose,
        description=description,
        epilog="\n\n".join(filter(None, (list_examples(examples), more))),
        formatter_class=HelpFormatter,
    )
    return parser


def list_examples(examples: Sequence[str]) -> str:
    """Return examples as the help shows them.

    Parameters
    ----------
    examples : sequence of str
        Arguments of ``fasta-learn``.

    Returns
    -------
    str
        Lines.
    """
    return "\n".join(["examples:", *(f"  fasta-learn {line}" for line in examples)])


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands of a parser.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.

    Returns
    -------
    dict of str to argparse.ArgumentParser
        By the names of the commands; empty if it has none.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def list_commands(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return what the help of a parser says about its commands.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.

    Returns
    -------
    dict of str to str
        Names, and what they do; empty if it has none.
    """
    return {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def walk(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Go through a parser and those of its commands.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    path : tuple of str, default=()
        The commands that lead to it.

    Yields
    ------
    path : tuple of str
        The commands that lead to a parser.
    parser : argparse.ArgumentParser
        The parser.
    """
    yield path, parser
    for name, command in subcommands(parser).items():
        yield from walk(command, (*path, name))


def parse(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> argparse.Namespace:
    """Parse arguments; the command, not the whole, refuses what it does not know.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser.
    argv : sequence of str or None
        The arguments; None means those of the process.

    Returns
    -------
    argparse.Namespace
        The values.
    """
    for _, command in walk(parser):
        command.set_defaults(parser=command)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        command = args.parser
        command.error(_unknown(unknown, list(command._option_string_actions)))
    return args


def _unknown(unknown: list[str], options: list[str]) -> str:
    message = f"unrecognized arguments: {' '.join(unknown)}"
    wrong = next((text for text in unknown if text.startswith("-")), "")
    return message + _did_you_mean(wrong.partition("=")[0], options)


def _suggest(message: str) -> str:
    """Name what is close to a wrong choice, of which the message lists the right."""
    found = re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)$", message)
    if found is None:
        return message
    choices = [text.strip("' ") for text in found[2].split(",")]
    return message + _did_you_mean(found[1], choices)


def _did_you_mean(wrong: str, right: list[str]) -> str:
    close = difflib.get_close_matches(wrong, right, n=1) if wrong else []
    return f"; did you mean {close[0]}?" if close else ""
