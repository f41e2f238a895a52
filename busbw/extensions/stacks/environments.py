"""Build environments with uv, and read the packages of an interpreter.

uv is a program that installs packages of Python. Folders are built completely or not at all.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from busbw import storage, wire
from busbw.driver.local import start_child

# The options with which `resolve_requirements` returns the text of a lock in the format of PEP 751.
PYLOCK_OPTIONS = ("--format=pylock.toml", "--generate-hashes")
# The time after which a command counts as hung. uv may download gigabytes of CUDA's libraries. A
# session may wait half an hour for another session on the machine (--device-wait).
COMMAND_DEADLINE_S = 7200.0
# The time that an interrupted or hung command has to remove its files.
GRACE_S = 10.0


class StackError(ValueError):
    """A stack cannot be locked, read, built or measured, for the reason in the message."""


def run_uv(*arguments: str | Path, standard_input: str = "") -> str:
    """Run uv with `arguments`, and return the standard output.

    `standard_input` is the text that uv reads from its standard input.

    Raises StackError, with uv's error message, if uv fails or is not installed.
    """
    program = shutil.which(
        "uv", path=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()])
    )
    if program is None:
        raise StackError("uv is not installed; expected it from `pip install 'busbw[stack]'`")
    return run_command([program, *map(str, arguments)], standard_input)


def run_command(
    command: Sequence[str],
    standard_input: str = "",
    environment: Mapping[str, str] = os.environ,
    exit_codes: Collection[int] = (0,),
) -> str:
    """Run a command, and return its standard output.

    The command gets SIGTERM if this process is interrupted, or if the command does not end within
    COMMAND_DEADLINE_S. After GRACE_S seconds, in which the command can remove its files, the
    command is killed with all processes of its group. If this process is killed, the command is
    killed, too.

    Args:
        command: The program and its arguments.
        standard_input: The text that the command reads from its standard input.
        environment: All environment variables of the command.
        exit_codes: The exit codes that count as success.

    Raises:
        StackError: The command ended with another exit code, or did not end in time. The message
            has the end of the command's standard error or, if that is empty, standard output.

    """
    with start_child(command, (subprocess.PIPE,) * 3, environment) as process:
        try:
            output, errors = process.communicate(standard_input.encode(), COMMAND_DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise StackError(
                f"{Path(command[0]).name}: "
                f"did not end within {COMMAND_DEADLINE_S:.0f} s and was killed"
            ) from error
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            # A process that the command started may still run, also if the command has ended.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode not in exit_codes:
        words = wire.escape_unprintable(
            " ".join((errors or output).decode(errors="replace").split())
        )
        raise StackError(
            f"{Path(command[0]).name}: {words[-600:] or f'exit code {process.returncode}'}"
        )
    return output.decode(errors="replace")


def resolve_requirements(requirements: Iterable[str], python: str, *options: str) -> str:
    """Return a text with the versions of packages that uv chooses to satisfy `requirements`.

    Raises StackError if no packages satisfy the requirements.

    Args:
        requirements: The requirements, such as ``jax==0.7.0``.
        python: The path of an interpreter, or a version of Python. Only wheels for this version
            are considered.
        options: Options of ``uv pip compile``. By default the text has lines such as
            ``jax==0.7.0``. With PYLOCK_OPTIONS the text is a lock in the format of PEP 751.

    """
    return run_uv(
        *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary=:all:"),
        f"--python={python}",
        *options,
        "-",
        standard_input="\n".join(requirements),
    )


def install_packages(folder: Path, lock_text: str, python: str, *options: str) -> None:
    """Make a virtual environment in `folder`, and install the packages of a lock into it.

    Args:
        folder: The folder, which does not exist yet.
        lock_text: The text of a lock in the format of PEP 751.
        python: The path of an interpreter, or a version of Python. uv downloads no interpreter.
        options: Further options of ``uv pip sync``.

    Raises:
        StackError: uv fails, for example because there is no such interpreter.

    """
    run_uv(
        *("venv", "--quiet", "--no-project", "--no-python-downloads", "--relocatable"),
        f"--python={python}",
        folder,
    )
    storage.write(folder / "pylock.toml", lock_text)
    run_uv(
        *("pip", "sync", "--quiet", "--require-hashes", "--no-build"),
        f"--python={folder}/bin/python",
        *options,
        folder / "pylock.toml",
    )


def build_once(folder: Path, build: Callable[[Path], object]) -> None:
    """Build `folder` completely or not at all; do nothing if `folder` exists.

    `build` is called with a temporary path, and must make a folder there. The new folder is then
    renamed to `folder`, so that an interrupted build leaves no folder. If another process is
    building in the same parent folder, this function waits for the other process. Raises StackError
    if the folder cannot be written, or if the other process does not end within COMMAND_DEADLINE_S.
    """
    new, where = folder.with_name(f"{folder.name}.new"), f"{folder} cannot be built: "
    with (
        storage.reraise_as(StackError, OSError, storage.LockedError, where=where),
        storage.lock_folder(folder.parent, wait_s=COMMAND_DEADLINE_S),
        contextlib.ExitStack() as undo,
    ):
        undo.callback(shutil.rmtree, new, ignore_errors=True)
        # A process that was killed may have left this folder.
        shutil.rmtree(new, ignore_errors=True)
        if not folder.exists():
            build(new)
            new.rename(folder)


def read_version_and_packages(python: str) -> tuple[str, dict[str, Distribution]]:
    """Return the version of the interpreter at the path `python`, and its installed packages.

    The version is a text such as ``3.12.4``. The packages are those that the interpreter would
    import, by normalized name (PEP 503). Raises StackError if the interpreter cannot be started.
    """
    code = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"
    version, folders = json.loads(run_command([python, "-I", "-c", code]))
    return version, {
        canonicalize_name(distribution.name): distribution
        # If several distributions have the same name, Python imports the first of them.
        for distribution in reversed(list(distributions(path=folders)))
        if distribution.metadata["Name"]
    }


def find_required_packages(
    names: Sequence[str], python_version: str, installed: Mapping[str, Distribution]
) -> dict[str, Distribution]:
    """Return the installed packages `names` and all packages that these packages need, by name.

    An extra is a group of optional requirements. The packages of an extra count as needed if all of
    them are installed. Extras matter, because JAX's plugins for chips are extras of JAX, and CUDA's
    libraries are extras of these plugins.

    Args:
        names: The normalized names of packages. Names that are not installed are left out.
        python_version: The version of the interpreter, such as ``3.12.4``.
        installed: All installed packages by normalized name.

    """
    stack: dict[str, Distribution] = {}
    candidates = list(names)
    while candidates:
        name = candidates.pop()
        if name in installed and name not in stack:
            stack[name] = installed[name]
            for extra in ("", *(stack[name].metadata.get_all("Provides-Extra") or ())):
                environment = {"python_version": python_version.rpartition(".")[0], "extra": extra}
                needed = {
                    canonicalize_name(requirement.name)
                    for requirement in map(Requirement, stack[name].requires or ())
                    if not requirement.marker or requirement.marker.evaluate(environment)
                }
                if not extra or needed <= installed.keys():
                    candidates += needed
    return dict(sorted(stack.items()))


# The installer writes or changes these files, or the files are outside the folder of packages, so
# they can differ from the files of the wheel.
_INSTALLER_FILE_PATTERN = re.compile(
    r"\.\./|/|.*\.pyc$"
    r"|[^/]*\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json|uv_cache\.json)$"
)


def hash_of_package_files(package: Distribution) -> str:
    """Return a SHA-256 hash over the names and contents of an installed package's files.

    Files that the installer wrote, and not the wheel of the package, are left out. Raises
    StackError if the package was not installed from an index, if it has no record of its files, or
    if a file was changed after the installation.
    """
    origin, record = package.read_text("direct_url.json"), package.read_text("RECORD")
    if origin or not record:
        reason = f"installed from {origin}" if origin else "without a record of its files"
        raise StackError(f"{package.name} is {reason}; expected a package as an index has it")
    lines = []
    for name, recorded, *_ in filter(None, csv.reader(record.splitlines())):
        if recorded and not _INSTALLER_FILE_PATTERN.match(name):
            path = Path(str(package.locate_file(name)))
            algorithm = recorded.partition("=")[0]
            with storage.reraise_as(StackError, OSError), path.open("rb") as file:
                digest = base64.urlsafe_b64encode(hashlib.file_digest(file, algorithm).digest())
            if recorded != f"{algorithm}={digest.rstrip(b'=').decode()}":
                raise StackError(f"{path} is not the file of its wheel")
            lines.append(f"{name},{recorded}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
