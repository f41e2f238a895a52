"""The packages of an interpreter: which of them are a framework's stack, and their files."""

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

from .uv import StackError, run

_ABOUT = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"

# Files that an installer writes or changes, and files outside of the folder of packages.
_NOT_OF_THE_WHEEL = re.compile(
    r"\.\./|/|.*\.pyc$"
    r"|[^/]*\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json|uv_cache\.json)$"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A Python of this machine: its version, and what it would import, by normalized name."""

    version: str
    distributions: Mapping[str, Distribution]

    def stack(self, names: Sequence[str]) -> dict[str, Distribution]:
        """Return those of `names` that are installed, and all that they need, in order.

        An extra counts where everything that it needs is installed: the plugins for chips are
        extras of JAX, and the libraries of CUDA are extras of these plugins.
        """
        stack: dict[str, Distribution] = {}
        candidates = list(names)
        while candidates:
            name = candidates.pop()
            if name in self.distributions and name not in stack:
                stack[name] = self.distributions[name]
                candidates += self._needs(stack[name])
        return dict(sorted(stack.items()))

    def _needs(self, distribution: Distribution) -> Iterator[str]:
        requirements = [Requirement(text) for text in distribution.requires or ()]
        for extra in ("", *(distribution.metadata.get_all("Provides-Extra") or ())):
            environment = {"python_version": minor_of(self.version), "extra": extra}
            needed = {
                canonicalize_name(requirement.name)
                for requirement in requirements
                if not requirement.marker or requirement.marker.evaluate(environment)
            }
            if not extra or needed <= self.distributions.keys():
                yield from needed


def minor_of(version: str) -> str:
    """Return the version of Python that wheels are for, such as ``3.12`` of ``3.12.4``."""
    return version.rpartition(".")[0]


def interpreter_of(python: str) -> Interpreter:
    """Read what the interpreter `python` would import. Raises StackError if it does not start."""
    version, folders = json.loads(run([python, "-I", "-c", _ABOUT]))
    return Interpreter(
        version=version,
        # Of several distributions with one name, Python imports the first.
        distributions={
            canonicalize_name(distribution.name): distribution
            for distribution in reversed(list(distributions(path=folders)))
            if distribution.metadata["Name"]
        },
    )


def record_of(distribution: Distribution) -> str:
    """Return a hash of the names and hashes of the files that the wheel brought; "" if unknown.

    Raises StackError for a file that is not as the wheel brought it.
    """
    lines = []
    record = distribution.read_text("RECORD") or ""
    for name, recorded, *_ in csv.reader(filter(None, record.splitlines())):
        if recorded and not _NOT_OF_THE_WHEEL.match(name):
            path = Path(str(distribution.locate_file(name)))
            if not path.is_file() or recorded != _recorded(path, recorded.partition("=")[0]):
                raise StackError(f"{path} is not the file of its wheel")
            lines.append(f"{name},{recorded}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _recorded(path: Path, algorithm: str) -> str:
    """Return the hash of a file in the form of RECORD, such as ``sha256=47DEQpj8HBSa``."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def why_not_locked(distribution: Distribution) -> str:
    """Return why no index can provide `distribution` as it is installed; "" if one may."""
    if origin := distribution.read_text("direct_url.json"):
        return f"was installed from {wire.printable(str(json.loads(origin).get('url')))}"
    return "" if distribution.read_text("RECORD") else "has no record of its files"
