"""What an interpreter has installed, and which of it is the stack of a framework.

The stack is what the framework is installed as and all that this asks for. An extra counts where
all that it asks for is there in a version that fits: plugins for chips are extras of JAX, and the
libraries of CUDA extras of the plugins.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from busbw import wire

from .lock import StackError

_SHOWN_LINES = 4


def output(command: Sequence[str], *, problem: str, timeout_s: float) -> str:
    """Raises StackError, which begins with `problem`, with the last words of one that failed."""
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{problem}: it did not finish within {timeout_s:g} s") from error
    except OSError as error:
        raise StackError(f"{problem}: {error}") from error
    if done.returncode != 0:
        raise StackError(f"{problem}: {wire.printable(_last_words(done.stderr))}")
    return done.stdout


def _last_words(text: str) -> str:
    """The last lines as one, no warnings if there are others; of a traceback the last alone."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("WARNING")] or lines
    shown = 1 if any(line.startswith("Traceback ") for line in lines) else _SHOWN_LINES
    return "; ".join(lines[-shown:]) or "no word of why"


_LISTING = Path(__file__).with_name("listing.py")
_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """`origin` is by PEP 610, "" for an index; `record` hashes the wheel's files, "" if unknown."""

    name: str
    version: str
    needs: tuple[Requirement, ...]
    extras: tuple[str, ...]
    origin: str
    installer: str
    record: str

    @property
    def problem(self) -> str:
        """Why it cannot be had again from an index; empty if it may be."""
        if self.origin:
            return f"was installed from {self.origin}"
        if not self.record:
            return "has no record of its files" + (
                f" ({self.installer} installed it)" if self.installer else ""
            )
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """An interpreter and its distributions by normalized name."""

    python: str
    platform: str
    distributions: Mapping[str, Distribution]

    def stack(self, names: Sequence[str]) -> tuple[Distribution, ...]:
        """Those of `names` that are there, and all that they ask for, in order."""
        found: set[str] = set()
        wanted = [name for name in names if name in self.distributions]
        while wanted:
            name = wanted.pop()
            if name not in found:
                found.add(name)
                wanted += self._needs(self.distributions[name])
        return tuple(self.distributions[name] for name in sorted(found))

    def _needs(self, one: Distribution) -> set[str]:
        """What it asks for by itself, and by each of its extras that is there whole."""
        found: set[str] = set()
        for extra in ("", *one.extras):
            asked = [need for need in one.needs if self._applies(need, extra)]
            if extra == "" or all(map(self._is_there, asked)):
                found |= {canonicalize_name(need.name) for need in asked}
        return found & self.distributions.keys()

    def _applies(self, need: Requirement, extra: str) -> bool:
        if need.marker is None:
            return not extra
        environment = {"python_version": ".".join(self.python.split(".")[:2]), "extra": extra}
        return need.marker.evaluate(environment)

    def _is_there(self, need: Requirement) -> bool:
        there = self.distributions.get(canonicalize_name(need.name))
        return there is not None and need.specifier.contains(there.version, prereleases=True)


def installed(python: str) -> Installed:
    """What `python` has. Raises StackError if it does not say."""
    said = output(
        [python, "-I", str(_LISTING)],
        problem=f"{python} does not report what is installed",
        timeout_s=_TIMEOUT_S,
    )
    document = wire.parsed(said)
    if document["implementation"] != "CPython":
        raise StackError(f"{python} is {document['implementation']}; accepted is CPython")
    found = [_distribution(one) for one in document["distributions"]]
    return Installed(
        python=document["python"],
        platform=document["platform"],
        # Of several of one name, the first is imported.
        distributions={one.name: one for one in reversed(found)},
    )


def _distribution(document: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=canonicalize_name(document["name"]),
        version=wire.printable(document["version"]),
        needs=tuple(map(Requirement, document["requires"])),
        extras=tuple(document["extras"]),
        origin=_origin_text(document["origin"]),
        installer=document["installer"],
        record=document["record"],
    )


def _origin_text(origin: Mapping[str, Any] | None) -> str:
    """Such as ``/home/me/jax (editable)``; empty for an index."""
    if origin is None:
        return ""
    editable = origin.get("dir_info", {}).get("editable", False)
    url = wire.printable(origin.get("url", "a place of its own"))
    return f"{url}{' (editable)' if editable else ''}"


def unlockable(stack: Sequence[Distribution]) -> str:
    """Which of `stack` cannot be had again from an index, and what to do; empty if all can."""
    bad = [f"{one.name} {one.version} {one.problem}" for one in stack if one.problem]
    if not bad:
        return ""
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return (
        f"{bad[0]}{more}: a reference is built from the wheels of an index; install a release "
        "from one"
    )
