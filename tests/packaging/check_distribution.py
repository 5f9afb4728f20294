"""Build the sdist and the wheel, check what they hold, and use the wheel.

``python tests/packaging/check_distribution.py [FOLDER]`` needs ``build`` and
``packaging``. The wheel is built from the sdist, so that the sdist is known to hold
what that takes. Then the wheel is installed without extras in an environment of its
own, where ``use_wheel.py`` runs. The two files stay in FOLDER, if one is given.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Everybody who installs the package downloads the wheel: 2.8 MB in November 2026,
# of which 1.8 are the prior and .7 the pools.
MOST_WHEEL_BYTES = 4_000_000
MOST_SDIST_BYTES = 6_000_000

IN_THE_SDIST = ("docs", "examples", "fasta_learn", "tests")
BESIDE_THEM = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "setup.cfg")
# Written by tools, and not kept in the repository.
GENERATED = {"__pycache__", "_build", "auto_examples", "generated"}
GENERATED_FILES = {"docs/sg_execution_times.rst"}


def check(holds: bool, problem: str) -> None:
    """End the program if something does not hold."""
    if not holds:
        raise SystemExit(f"the distribution is wrong: {problem}")


def files_of(folder: str) -> set[str]:
    """Return the paths of what the repository keeps in a folder."""
    paths = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*")}
    return {
        path.as_posix()
        for path in paths
        if (ROOT / path).is_file()
        and not GENERATED.intersection(path.parts)
        and not any(part.startswith(".") for part in path.parts)
    } - GENERATED_FILES


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    built = subprocess.run(command, capture_output=True, text=True)
    check(built.returncode == 0, f"no build:\n{built.stdout}{built.stderr}")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> bytes:
    """Check what the sdist holds; return its metadata."""
    with tarfile.open(sdist) as archive:
        files = [member.name for member in archive if member.isfile()]
        (root,) = {name.partition("/")[0] for name in files}
        metadata = archive.extractfile(f"{root}/PKG-INFO").read()
    names = {name.partition("/")[2] for name in files}
    wanted = {*BESIDE_THEM}.union(*map(files_of, IN_THE_SDIST))
    check(wanted <= names, f"not in the sdist: {sorted(wanted - names)}")
    folders = tuple(f"{folder}/" for folder in IN_THE_SDIST)
    spare = {name for name in names - wanted if name.startswith(folders)}
    check(not spare, f"spare in the sdist: {sorted(spare)}")
    check(
        sdist.stat().st_size <= MOST_SDIST_BYTES,
        f"{sdist.name} has {sdist.stat().st_size:,} bytes, "
        f"more than {MOST_SDIST_BYTES:,}",
    )
    return metadata


def check_wheel(wheel: Path) -> bytes:
    """Check what the wheel holds; return its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        check(archive.testzip() is None, "the wheel is damaged")
        names = set(archive.namelist())
        info = f"fasta_learn-{PROJECT['version']}.dist-info"
        metadata = archive.read(f"{info}/METADATA")
        tags = BytesParser().parsebytes(archive.read(f"{info}/WHEEL"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    check(f"{info}/licenses/LICENSE" in names, "no LICENSE in the wheel")
    inside = {name for name in names if not name.startswith(f"{info}/")}
    ours = files_of("fasta_learn")
    check(ours <= inside, f"not in the wheel: {sorted(ours - inside)}")
    check(inside <= ours, f"spare in the wheel: {sorted(inside - ours)}")
    for path in ("fasta_learn/py.typed", "fasta_learn/transfer/triton_h200.npz"):
        check(path in inside, f"no {path} in the wheel")
    n_pools = sum(name.endswith((".csv", ".csv.gz")) for name in inside)
    check(n_pools >= 60, f"{n_pools} pools in the wheel")
    check(tags["Root-Is-Purelib"] == "true", "the wheel is not of pure Python")
    check(tags["Tag"] == "py3-none-any", f"the tag of the wheel is {tags['Tag']}")
    check_entry_points(entry_points)
    size = wheel.stat().st_size
    check(
        size <= MOST_WHEEL_BYTES,
        f"{wheel.name} has {size:,} bytes, more than {MOST_WHEEL_BYTES:,}",
    )
    return metadata


def check_entry_points(text: str) -> None:
    """Check that the wheel declares the command and the hook of `import torch`."""
    declared = {line.strip() for line in text.splitlines()}
    wanted = {
        "[console_scripts]",
        "fasta-learn = fasta_learn._cli:main",
        "[torch.backends]",
        "fasta_learn = fasta_learn.inductor._entry_point:load",
    }
    check(wanted <= declared, f"no entry points {sorted(wanted - declared)}")


def check_metadata(raw: bytes) -> None:
    """Check that the metadata is valid and that of the project."""
    metadata = Metadata.from_email(raw, validate=True)
    source = (ROOT / "fasta_learn" / "__init__.py").read_text("utf-8")
    version = str(metadata.version)
    check(version == PROJECT["version"], f"the version is {version}")
    check(
        f'__version__ = "{version}"' in source,
        f"fasta_learn.__version__ is not the {version} of the metadata",
    )
    check(metadata.name == PROJECT["name"], f"the name is {metadata.name}")
    check(str(metadata.requires_python) == ">=3.11", "requires_python is another")
    check(metadata.license_expression == "BSD-3-Clause", "the license is another")
    extras = set(PROJECT["optional-dependencies"])
    check(set(metadata.provides_extra or ()) == extras, "the extras are others")
    core = {str(r) for r in metadata.requires_dist or () if r.marker is None}
    wanted = {str(Requirement(text)) for text in PROJECT["dependencies"]}
    check(core == wanted, f"it depends on {sorted(core)}")
    check(
        metadata.description == (ROOT / "README.md").read_text("utf-8"),
        "its description is not the README",
    )


def use(wheel: Path, folder: Path) -> None:
    """Install the wheel without extras in a new environment, and use it."""
    venv.create(folder / "venv", with_pip=True)
    bin_dir = folder / "venv" / "bin"
    pip = [bin_dir / "python", "-m", "pip", "install", "--quiet", wheel]
    installed = subprocess.run(pip, capture_output=True, text=True)
    check(installed.returncode == 0, f"no installation:\n{installed.stderr}")
    # Away from the checkout, whose modules would stand in for those of the wheel.
    script = Path(__file__).with_name("use_wheel.py")
    command = [bin_dir / "python", "-I", script]
    used = subprocess.run(command, cwd=folder)
    check(used.returncode == 0, "what was installed does not work")


def main() -> None:
    """Build, check and use them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where the files stay")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / "dist" if args.folder is None else args.folder.resolve()
        sdist, wheel = build(target)
        check_metadata(check_sdist(sdist))
        check_metadata(check_wheel(wheel))
        use(wheel, folder)
    print(f"{sdist.name} and {wheel.name} hold what they should, and work.")


if __name__ == "__main__":
    main()
