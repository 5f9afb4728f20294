"""A script that completes the command line in fish."""

from fasta_learn._cli._syntax import Argument, Command

_SCRIPT = """\
# Completes fasta-learn in fish. Either load it in ~/.config/fish/config.fish,
#   fasta-learn completion fish | source
# or write it once, which starts faster, to
#   ~/.config/fish/completions/fasta-learn.fish
function __fasta_learn_at --description 'Whether the commands so far are these'
    set -l words (commandline -opc)
    set -l path
    for word in $words[2..]
        contains -- "$path/$word" %(paths)s; and set path "$path/$word"
    end
    test "$path" = "$argv[1]"
end

complete -c fasta-learn -f
%(lines)s"""


def to_fish(syntax: list[Command], pools: list[str]) -> str:
    """Return a script that completes the command line in fish.

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
    lines = [line for command in syntax for line in _lines(command, pools)]
    paths = " ".join("".join(f"/{n}" for n in c.path) for c in syntax[1:])
    return _SCRIPT % {"paths": paths, "lines": "\n".join(lines)}


def _lines(command: Command, pools: list[str]) -> list[str]:
    path = "".join(f"/{name}" for name in command.path)
    condition = _quote(f'__fasta_learn_at "{path}"')
    start = f"complete -c fasta-learn -n {condition}"
    names = [
        f"{start} -a {name} -d {_quote(purpose)}"
        for name, purpose in command.commands.items()
    ]
    options = [
        f"{start}{_flags(option)} -d {_quote(option.purpose)}{_answer(option, pools)}"
        for option in command.options
    ]
    values = [f"{start}{_answer(value, pools)}" for value in command.values[:1]]
    return [*names, *options, *values]


def _flags(option: Argument) -> str:
    return "".join(
        f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}"
        for flag in option.flags
    )


def _answer(argument: Argument, pools: list[str]) -> str:
    """Return the options of ``complete`` that say which values there are."""
    if argument.n_values == "none":
        return ""
    wants = " -r" if argument.flags else ""
    if argument.kind in ("file", "pool"):
        names = f" -a {_quote(' '.join(pools))}" if argument.kind == "pool" else ""
        return f"{wants} -F{names}"
    values = _quote(" ".join(argument.choices))
    if argument.kind == "folder":
        values = "'(__fish_complete_directories)'"
    return f"{wants} -f -a {values}"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
