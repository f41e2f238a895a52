"""Read the packages of an interpreter: the packages of a framework's stack, and their files."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from busbw import wire

from .uv import StackError, run_command

_DESCRIBE_CODE = (
    "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"
)

# The installer writes or changes these files, or the files are outside the folder of packages, so
# they can differ from the files of the wheel.
_CHANGED_BY_INSTALLER = re.compile(
    r"\.\./|/|.*\.pyc$"
    r"|[^/]*\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json|uv_cache\.json)$"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A Python on this machine: its version, such as ``3.12.4``, and its installed packages.

    `distributions` maps normalized names to the packages that it would import.
    """

    version: str
    distributions: Mapping[str, Distribution]

    def find_stack(self, names: Sequence[str]) -> dict[str, Distribution]:
        """Map names to packages: the installed packages of `names`, and all that they need.

        The packages of an extra belong to the stack if all of them are installed. Extras matter,
        because JAX's plugins for chips are extras of JAX, and CUDA's libraries are extras of these
        plugins.
        """
        stack: dict[str, Distribution] = {}
        candidates = list(names)
        while candidates:
            name = candidates.pop()
            if name in self.distributions and name not in stack:
                stack[name] = self.distributions[name]
                candidates += self._required_names(stack[name])
        return dict(sorted(stack.items()))

    def _required_names(self, distribution: Distribution) -> Iterator[str]:
        """Yield the names of packages that a package requires, by itself or for an extra.

        An extra counts if all of its packages are installed.
        """
        requirements = [Requirement(text) for text in distribution.requires or ()]
        for extra in ("", *(distribution.metadata.get_all("Provides-Extra") or ())):
            environment = {"python_version": minor_version(self.version), "extra": extra}
            needed = {
                canonicalize_name(requirement.name)
                for requirement in requirements
                if not requirement.marker or requirement.marker.evaluate(environment)
            }
            if not extra or needed <= self.distributions.keys():
                yield from needed


def minor_version(version: str) -> str:
    """Return the minor version of Python, such as ``3.12`` for ``3.12.4``."""
    return version.rpartition(".")[0]


def read_interpreter(python: str) -> Interpreter:
    """Read the version and the packages of the interpreter `python`.

    Raises StackError if the interpreter cannot be started.
    """
    version, folders = json.loads(run_command([python, "-I", "-c", _DESCRIBE_CODE]))
    return Interpreter(
        version=version,
        # If several distributions have the same name, Python imports the first of them.
        distributions={
            canonicalize_name(distribution.name): distribution
            for distribution in reversed(list(distributions(path=folders)))
            if distribution.metadata["Name"]
        },
    )


def hash_of_files(distribution: Distribution) -> str:
    """Return a hash over the files that the wheel of an installed package brought.

    The hash covers the names and the contents of the files. It is empty if the package has no
    record of its files. Raises StackError if a file was changed after it was installed.
    """
    lines = []
    record = distribution.read_text("RECORD") or ""
    for name, recorded, *_ in csv.reader(filter(None, record.splitlines())):
        if recorded and not _CHANGED_BY_INSTALLER.match(name):
            path = Path(str(distribution.locate_file(name)))
            if not path.is_file() or recorded != _hash_as_recorded(
                path, recorded.partition("=")[0]
            ):
                raise StackError(f"{path} is not the file of its wheel")
            lines.append(f"{name},{recorded}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _hash_as_recorded(path: Path, algorithm: str) -> str:
    """Return the hash of a file as a RECORD has it, such as ``sha256=47DEQpj8HBSa``."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def reason_not_lockable(distribution: Distribution) -> str:
    """Return the reason why a package cannot be installed again from an index of packages.

    The reason is the end of a sentence, such as ``was installed from URL``. It is empty if the
    package can perhaps be installed again.
    """
    if origin := distribution.read_text("direct_url.json"):
        return f"was installed from {wire.escape_unprintable(str(json.loads(origin).get('url')))}"
    return "" if distribution.read_text("RECORD") else "has no record of its files"
