"""Install generated artifacts for the user, without writing into torch."""

import os
from dataclasses import replace as replace_fields
from pathlib import Path

from fasta_learn.heuristics._install_code import ArtifactCode, parse_artifact
from fasta_learn.heuristics._install_store import (
    MEMORY_TOLERANCE,
    InstalledArtifact,
    find_folder,
    read_folder,
    remove,
    save,
)

_Folder = str | os.PathLike[str] | None

# Behind the class of an artifact. Torch tells devices apart by shared memory and
# capability alone, in which some differ not at all; and this runs in a compile, so it
# may not fail.
_BINDING = """

# Added by fasta_learn.heuristics.install: decides on the device that it was learned on.
def _bind(heuristic, device_name, device_memory):
    unbound = heuristic.check_precondition

    def check_precondition(self, metadata, context):
        if not unbound(self, metadata, context):
            return False
        try:
            import torch

            device = torch.cuda.get_device_properties(torch.cuda.current_device())
        except Exception:
            return False
        return device_name in (None, device.name) and (
            device_memory is None
            or abs(device.total_memory - device_memory) <= {tolerance} * device_memory
        )

    heuristic.check_precondition = check_precondition


_bind({class_name}, {device_name!r}, {device_memory!r})
"""


def install(
    source: str | os.PathLike[str],
    *,
    device_name: str | None = None,
    device_memory: int | None = None,
    folder: _Folder = None,
    replace: bool = False,
) -> InstalledArtifact:
    """Install a generated heuristic for this user.

    It is used once it is switched on: by `activate`, or by ``FASTA_LEARN_HEURISTICS=1``
    in the environment.

    Parameters
    ----------
    source : path-like or str
        The generated module: its file, or its text.
    device_name : str, default=None
        The name of the only device on which it may decide. Torch can't tell an H100
        from an H200; this can.
    device_memory : int, default=None
        The memory of that device, in bytes; 10 % more or less are the same.
    folder : path-like, default=None
        Where to; by default the folder of the user.
    replace : bool, default=False
        Whether it takes the place of artifacts that would decide on the same device.

    Returns
    -------
    InstalledArtifact
        What is installed.

    Raises
    ------
    OSError
        The file can't be read, or the folder not written.
    ValueError
        It is no artifact, or another would decide on the same device.

    See Also
    --------
    activate : Switches the installed artifacts on.
    verify : Tries an artifact in a process of its own.

    Examples
    --------
    >>> from fasta_learn.heuristics import install
    >>> install("_PadMMH200.py", device_name="NVIDIA H200")  # doctest: +SKIP
    """
    text, origin = read_source(source)
    code = parse_artifact(text, origin)
    artifact, installed = _describe(code, origin, device_name, device_memory, folder)
    rivals = [
        other
        for other in list_installed(folder=folder)
        if other.overlaps(artifact) and other.hash != artifact.hash
    ]
    if rivals and not replace:
        raise ValueError(
            f"{rivals[0].class_name} ({rivals[0].hash}) is installed for {code.name} "
            "on the same device: uninstall it, or install with replace=True."
        )
    save(artifact, installed)
    for other in rivals:
        remove(other)
    return artifact


def uninstall(identity: str, *, folder: _Folder = None) -> InstalledArtifact:
    """Remove an installed artifact.

    Parameters
    ----------
    identity : str
        The beginning of its hash, its class, or its name if it has it alone.
    folder : path-like, default=None
        Where from; by default the folder of the user.

    Returns
    -------
    InstalledArtifact
        What was removed.

    Raises
    ------
    ValueError
        None or several are meant.

    Examples
    --------
    >>> from fasta_learn.heuristics import uninstall
    >>> uninstall("PadMMH200")  # doctest: +SKIP
    """
    artifact = find_installed(identity, folder=folder)
    remove(artifact)
    return artifact


def list_installed(*, folder: _Folder = None) -> list[InstalledArtifact]:
    """Return the installed artifacts.

    Parameters
    ----------
    folder : path-like, default=None
        Where; by default the folder of the user.

    Returns
    -------
    list of InstalledArtifact
        By name and hash.

    Examples
    --------
    >>> import tempfile
    >>> from fasta_learn.heuristics import list_installed
    >>> list_installed(folder=tempfile.gettempdir() + "/nothing")
    []
    """
    return read_folder(find_folder(folder))


def find_installed(identity: str, *, folder: _Folder = None) -> InstalledArtifact:
    """Return an installed artifact.

    Parameters
    ----------
    identity : str
        The beginning of its hash, its class, or its name.
    folder : path-like, default=None
        Where; by default the folder of the user.

    Returns
    -------
    InstalledArtifact
        The artifact.

    Raises
    ------
    ValueError
        None or several are meant.
    """
    every = list_installed(folder=folder)
    found = [
        artifact
        for artifact in every
        if identity in (artifact.name, artifact.class_name)
        or (len(identity) >= 4 and artifact.hash.startswith(identity))
    ]
    if len(found) != 1:
        known = ", ".join(f"{a.hash} ({a.class_name})" for a in every) or "none"
        what = "several artifacts are" if found else "no artifact is"
        raise ValueError(f"{what} meant by {identity!r}; installed: {known}.")
    return found[0]


def read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the text of a module and what to call it.

    Parameters
    ----------
    source : path-like or str
        A file, or the text itself.

    Returns
    -------
    text : str
        The module.
    origin : str
        What errors call it.

    Raises
    ------
    OSError, ValueError
        The file can't be read.
    """
    if isinstance(source, str) and "\n" in source:
        return source, "the code"
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text: {error}.") from error


def _describe(
    code: ArtifactCode,
    origin: str,
    device_name: str | None,
    device_memory: int | None,
    folder: _Folder,
) -> tuple[InstalledArtifact, str]:
    text = code.text
    if device_name is not None or device_memory is not None:
        text += _BINDING.format(
            class_name=code.class_name,
            device_name=device_name,
            device_memory=device_memory,
            tolerance=MEMORY_TOLERANCE,
        )
    artifact = InstalledArtifact(
        hash=replace_fields(code, text=text).hash,
        name=code.name,
        class_name=code.class_name,
        shared_memory=code.shared_memory,
        device_capa=code.device_capa,
        device_name=device_name,
        device_memory=device_memory,
        path="",
        source=origin,
    )
    path = find_folder(folder) / f"{artifact.module_name}.py"
    return replace_fields(artifact, path=str(path)), text
