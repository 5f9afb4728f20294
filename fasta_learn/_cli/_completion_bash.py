"""A script that completes the command line in bash."""

from fasta_learn._cli._syntax import Argument, Command

_SCRIPT = """\
# Completes fasta-learn in bash. Either load it in ~/.bashrc,
#   source <(fasta-learn completion bash)
# or write it once, which starts faster, to
#   ~/.local/share/bash-completion/completions/fasta-learn
_fasta_learn() {
    local cur=${COMP_WORDS[COMP_CWORD]} path= option= words= kind=
    local -i i count=0
    local word pools=%(pools)s
    COMPREPLY=()
    # The "=" of --option=value is a word of its own.
    [[ $cur == "=" ]] && cur=
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            =) continue ;;
            -*) option=$word count=0; continue ;;
        esac
        count+=1
        case "$path/$word" in
            %(paths)s) path=$path/$word option= count=0 ;;
        esac
    done
    case "$path $option $count" in
%(options)s
    esac
    if [[ -z $words$kind || ( $cur == -* && $count -gt 0 ) ]]; then
        case $path in
%(commands)s
        esac
    fi
    [[ $kind == pool ]] && words+=" $pools"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    # Readline itself completes files best, with ~ and quotes.
    case $kind in
        file | pool) compopt -o default 2>/dev/null ;;
        folder) compopt -o dirnames 2>/dev/null ;;
    esac
    return 0
}
complete -F _fasta_learn fasta-learn"""


def to_bash(syntax: list[Command], pools: list[str]) -> str:
    """Return a script that completes the command line in bash.

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
    return _SCRIPT % {
        "pools": _quote(pools),
        "paths": " | ".join(_path(command) for command in syntax[1:]),
        "options": "\n".join(filter(None, map(_option_cases, syntax))),
        "commands": "\n".join(map(_command_case, syntax)),
    }


def _path(command: Command) -> str:
    return "".join(f"/{name}" for name in command.path)


def _quote(words: list[str] | tuple[str, ...]) -> str:
    return f"'{' '.join(words)}'"


def _option_cases(command: Command) -> str:
    """Return what may follow each option; without a value there is nothing."""
    return "\n".join(
        f"        {_patterns(command, option)}) {_answer(option)} ;;"
        for option in command.options
        if option.n_values != "none"
    )


def _patterns(command: Command, option: Argument) -> str:
    count = "*" if option.n_values == "many" else "0"
    return " | ".join(f'"{_path(command)} {flag} "{count}' for flag in option.flags)


def _answer(argument: Argument) -> str:
    if argument.choices:
        return f"words={_quote(argument.choices)}"
    # A number, say: there is nothing to offer, and options would be wrong.
    return f"kind={argument.kind or 'other'}"


def _command_case(command: Command) -> str:
    flags = [flag for option in command.options for flag in option.flags]
    value = command.values[0] if command.values else None
    answer = f"words={_quote(list(command.commands))}"
    if value is not None:
        answer = _answer(value)
    return (
        f"            {_quote([_path(command)])})\n"
        f"                words= kind=\n"
        f"                if [[ $cur == -* ]]; then words={_quote(flags)}\n"
        f"                else {answer}; fi ;;"
    )
