"""``fasta-learn heuristic install, uninstall, list, verify``."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fasta_learn._cli._heuristic_parsers import add_folder, add_json, add_step
from fasta_learn._cli._terminal import write
from fasta_learn._text import format_table
from fasta_learn.heuristics import (
    InstalledArtifact,
    install,
    list_installed,
    read_device,
    read_log,
    uninstall,
    verify,
)

_PROBLEM = 1


def add_parsers(steps: Any) -> None:
    """Add the steps to a parser.

    Parameters
    ----------
    steps : object
        What `argparse.ArgumentParser.add_subparsers` answers.
    """
    _add_install(steps)
    _add_uninstall_and_list(steps)
    _add_verify(steps)


def _add_install(steps: Any) -> None:
    parser = add_step(
        steps,
        "install",
        _install,
        purpose="install a generated heuristic for you; FASTA_LEARN_HEURISTICS=1 in "
        "the environment switches it on",
        example="_PadMMH200.py --like pad_mm.txt",
    )
    parser.add_argument("file", metavar="FILE", help="the generated module")
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument(
        "--device-name", metavar="NAME", help="decide on devices of this name only"
    )
    bound.add_argument(
        "--like",
        metavar="LOG",
        help="decide on the device only that this log was collected on",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="in the place of those that would decide on the same device",
    )
    add_folder(parser)


def _add_uninstall_and_list(steps: Any) -> None:
    parser = add_step(
        steps,
        "uninstall",
        _uninstall,
        purpose="remove an installed heuristic",
        example="PadMMH200",
    )
    parser.add_argument("identity", metavar="HASH", help="hash, class or name")
    add_folder(parser)

    parser = add_step(
        steps,
        "list",
        _list,
        purpose="show what is installed",
        example="--json",
    )
    add_folder(parser)
    add_json(parser)


def _add_verify(steps: Any) -> None:
    parser = add_step(
        steps,
        "verify",
        _verify,
        purpose="try a heuristic with torch in a process of its own",
        example="_PadMMH200.py --log pad_mm.txt",
    )
    parser.add_argument("artifact", metavar="FILE", help="module, or hash of installed")
    parser.add_argument(
        "--log", metavar="LOG", help="decide on its inputs instead of random ones"
    )
    add_folder(parser)


def _install(args: argparse.Namespace) -> int:
    name, memory = args.device_name, None
    if args.like is not None:
        device = read_device(args.like)
        if device is None:
            raise ValueError(
                f"nothing beside {args.like} tells its device; use --device-name."
            )
        name, memory = device.name, device.memory
    artifact = install(
        args.file,
        device_name=name,
        device_memory=memory,
        folder=args.folder,
        replace=args.replace,
    )
    write(f"installed {_describe(artifact)}: {artifact.path}")
    return 0


def _uninstall(args: argparse.Namespace) -> int:
    write(f"removed {_describe(uninstall(args.identity, folder=args.folder))}")
    return 0


def _describe(artifact: InstalledArtifact) -> str:
    return f"{artifact.class_name} ({artifact.hash}) for {artifact.name}"


def _list(args: argparse.Namespace) -> int:
    if args.folder is not None and not Path(args.folder).is_dir():
        raise ValueError(f"{args.folder}: there is no such folder; check the path.")
    artifacts = list_installed(folder=args.folder)
    if args.json:
        write(json.dumps([asdict(artifact) for artifact in artifacts]))
    elif artifacts:
        header = ("hash", "class", "decides", "capability", "shared memory", "device")
        write(format_table(header, [_to_row(artifact) for artifact in artifacts]))
    else:
        write("nothing is installed")
    return 0


def _to_row(artifact: InstalledArtifact) -> tuple[str, ...]:
    return (
        artifact.hash,
        artifact.class_name,
        artifact.name,
        ".".join(map(str, artifact.device_capa)),
        str(artifact.shared_memory),
        artifact.device_name or "any",
    )


def _verify(args: argparse.Namespace) -> int:
    inputs = None if args.log is None else read_log(args.log).inputs()
    found = verify(args.artifact, inputs=inputs, folder=args.folder)
    for problem in found.problems:
        write(f"problem: {problem}")
    if found.is_fine:
        write(
            f"{found.class_name} is fine: torch takes it, and it decides "
            f"{found.n_decided} of {found.n_rows} inputs"
        )
    return 0 if found.is_fine else _PROBLEM
