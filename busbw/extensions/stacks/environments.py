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
    """The error of a stack that cannot be locked, read, built or measured.

    The message has the reason.
    """


def run_uv(*arguments: str | Path, text: str = "") -> str:
    """Run uv with `arguments` and the standard input `text`; return the standard output.

    Raises StackError, with uv's error message, if uv fails or is not installed.
    """
    program = shutil.which(
        "uv", path=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()])
    )
    if program is None:
        raise StackError("uv is not installed; expected it from `pip install 'busbw[stack]'`")
    return run_command([program, *map(str, arguments)], text)


def run_command(
    command: Sequence[str],
    text: str = "",
    environment: Mapping[str, str] = os.environ,
    exit_codes: Collection[int] = (0,),
) -> str:
    """Run a command, and return its standard output.

    If this process is interrupted, or if the command does not end within COMMAND_DEADLINE_S, the
    command gets SIGTERM, and GRACE_S seconds to remove its files. Then the command is killed with
    all processes of its group. If this process is killed, the command is killed, too.

    Args:
        command: The program and its arguments.
        text: The standard input of the command.
        environment: All environment variables of the command.
        exit_codes: The exit codes of a command that succeeded.

    Raises:
        StackError: The command ended with another exit code, or did not end in time. The message
            has the end of the standard error or, if this is empty, of the standard output.

    """
    with start_child(command, (subprocess.PIPE,) * 3, environment) as process:
        try:
            output, errors = process.communicate(text.encode(), COMMAND_DEADLINE_S)
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
    """Return the packages that satisfy `requirements`, as text.

    Raises StackError if no packages satisfy the requirements.

    Args:
        requirements: The requirements, such as ``jax==0.7.0``.
        python: The path of an interpreter, or a version of Python. Only wheels for this version
            are considered.
        options: Options of ``uv pip compile``, which can choose the format of the text, such as
            PYLOCK_OPTIONS. By default the text has lines such as ``jax==0.7.0``.

    """
    return run_uv(
        *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary=:all:"),
        f"--python={python}",
        *options,
        "-",
        text="\n".join(requirements),
    )


def install_packages(folder: Path, pylock: str, python: str, *options: str) -> None:
    """Make a virtual environment in `folder`, and install the packages of a lock into it.

    Args:
        folder: The folder, which does not exist yet.
        pylock: The text of a lock in the format of PEP 751.
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
    storage.write(folder / "pylock.toml", pylock)
    run_uv(
        *("pip", "sync", "--quiet", "--require-hashes", "--no-build"),
        f"--python={folder}/bin/python",
        *options,
        folder / "pylock.toml",
    )


def build_once(folder: Path, build: Callable[[Path], object]) -> None:
    """Build `folder` unless `folder` exists, so that an interrupted build leaves no folder.

    `build` is called with the path of a new folder, which `build` must make. The new folder is then
    renamed to `folder`. If another process is building in the same parent folder, this function
    waits until the other process has finished. Raises StackError if the folder cannot be written,
    or if the other process does not end within COMMAND_DEADLINE_S.
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


def read_interpreter(python: str) -> tuple[str, dict[str, Distribution]]:
    """Return the version of the interpreter at the path `python`, and its packages by name.

    The version is a text such as ``3.12.4``. The packages are those that the interpreter would
    import, by normalized name. Raises StackError if the interpreter cannot be started.
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
    """Return the installed packages `names` and all packages that these need, by name.

    The packages of an extra (a group of optional requirements) belong to the stack if all packages
    of the extra are installed. Extras matter, because JAX's plugins for chips are extras of JAX,
    and CUDA's libraries are extras of these plugins. `python_version` and `installed` are the
    values of `read_interpreter`.
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


def hash_of_files(package: Distribution) -> str:
    """Return a SHA-256 hash over the files that the wheel of an installed package brought.

    The hash covers the names and the contents of the files. Raises StackError if no index has the
    package, if the package has no record of its files, or if a file was changed after the
    installation.
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
