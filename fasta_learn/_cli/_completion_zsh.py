"""A script that completes the command line in zsh."""

import re

from fasta_learn._cli._syntax import Argument, Command

_SCRIPT = """\
#compdef fasta-learn
# Completes fasta-learn in zsh. Either load it in ~/.zshrc after compinit,
#   source <(fasta-learn completion zsh)
# or write it once, which starts faster, to a file _fasta-learn in a folder of $fpath.
_fasta_learn_pools() {
    _alternative 'pools:pool:(%(pools)s)' 'files:file:_files'
}

%(functions)s

if [[ $funcstack[1] == _fasta_learn ]]; then
    _fasta_learn "$@"
else
    compdef _fasta_learn fasta-learn
fi"""

_BRANCH = """\
%(name)s() {
    local curcontext=$curcontext state state_descr line ret=1
    typeset -A opt_args
    local -a commands=(
%(commands)s
    )
    _arguments -C \\
%(arguments)s
        '1:command:->command' \\
        '*::argument:->argument' && ret=0
    case $state in
        command) _describe -t commands command commands && ret=0 ;;
        argument)
            case $line[1] in
%(cases)s
            esac ;;
    esac
    return ret
}"""

_ACTIONS = {
    "file": "_files", "folder": "_files -/", "pool": "_fasta_learn_pools", "": " "
}  # fmt: skip


def to_zsh(syntax: list[Command], pools: list[str]) -> str:
    """Return a script that completes the command line in zsh.

    Parameters
    ----------
    syntax : list of Command
        The command line.
    pools : list of str
        Names of the pools that ship.

    Returns
    -------
    str
        The script.
    """
    functions = [_branch(c) if c.commands else _leaf(c) for c in syntax]
    return _SCRIPT % {"pools": " ".join(pools), "functions": "\n\n".join(functions)}


def _function(path: tuple[str, ...]) -> str:
    return "_".join(("_fasta_learn", *path)).replace("-", "_")


def _leaf(command: Command) -> str:
    specs = [*_options(command), *map(_value, command.values)]
    lines = " \\\n".join(f"        {spec}" for spec in specs)
    return f"{_function(command.path)}() {{\n    _arguments -S \\\n{lines}\n}}"


def _branch(command: Command) -> str:
    described = [
        f"        {_quote(f'{name}:{_escape(purpose)}')}"
        for name, purpose in command.commands.items()
    ]
    cases = [
        f"                {name}) {_function((*command.path, name))} && ret=0 ;;"
        for name in command.commands
    ]
    return _BRANCH % {
        "name": _function(command.path),
        "commands": "\n".join(described),
        "arguments": "\n".join(f"        {spec} \\" for spec in _options(command)),
        "cases": "\n".join(cases),
    }


def _options(command: Command) -> list[str]:
    return [
        _quote(f"{again}{flag}{_mark(flag, option)}[{_escape(option.purpose)}]{after}")
        for option in command.options
        for again, after in [_frame(option)]
        for flag in option.flags
    ]


def _mark(flag: str, option: Argument) -> str:
    """Return what lets a value follow as in --option=value and -ovalue."""
    if option.n_values == "none":
        return ""
    return "=" if flag.startswith("--") else "+"


def _frame(option: Argument) -> tuple[str, str]:
    """Return what stands before the flag and after the description."""
    if option.n_values == "none":
        return "", ""
    again = "*" if option.repeats else ""
    return again, f":{option.name.lower()}:{_action(option)}"


def _value(argument: Argument) -> str:
    start = "*:" if argument.n_values == "many" else ":"
    return _quote(f"{start}{argument.name.lower()}:{_action(argument)}")


def _action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return _ACTIONS[argument.kind]


def _escape(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
