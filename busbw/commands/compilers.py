"""`python -m busbw compilers`: which releases of libtpu pip can see, and which are meant to fit.

The metadata of the installed JAX decides what fits; pip lists the releases. Nothing is installed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from .command import CommandError, Commands

ORDER = 2
PACKAGE = "libtpu"
_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Releases:
    """The releases of libtpu for an installed JAX.

    `wanted` is what JAX asks for, such as ``==0.0.42.*``; `visible` are pip's, newest first;
    `installed` is empty where there is none.
    """

    jax: str
    jaxlib: str
    wanted: str
    installed: str
    visible: tuple[str, ...]

    def fits(self, version: str) -> bool:
        """Whether `version` is one that the installed JAX asks for."""
        return Version(version) in SpecifierSet(self.wanted)


def add_to(commands: Commands) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "compilers",
        help="which releases of libtpu are available, and which fit the installed JAX",
        description=__doc__,
    )
    parser.add_argument("--json", action="store_true", help="as JSON instead of lines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what there is; the exit code."""
    found = releases()
    print(json.dumps(_document(found), indent=1) if options.json else "\n".join(_lines(found)))
    return 0


def releases() -> Releases:
    """The releases that pip sees and JAX wants. Raises CommandError, also without JAX."""
    try:
        jax, jaxlib = (importlib.metadata.version(name) for name in ("jax", "jaxlib"))
    except importlib.metadata.PackageNotFoundError as error:
        raise CommandError('JAX is not installed here: pip install "busbw[jax]"') from error
    try:
        installed = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    return Releases(
        jax=jax, jaxlib=jaxlib, wanted=_wanted(), installed=installed, visible=_visible()
    )


def _wanted() -> str:
    """What the extra `tpu` of the installed JAX asks for; empty, hence any, where it does not."""
    for text in importlib.metadata.requires("jax") or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if requirement.name == PACKAGE and marker and marker.evaluate({"extra": "tpu"}):
            return str(requirement.specifier)
    return ""


def _visible() -> tuple[str, ...]:
    command = [sys.executable, "-m", "pip", "index", "versions", PACKAGE]
    command += ["--disable-pip-version-check"]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"pip did not answer within {_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        raise CommandError(f"pip finds no {PACKAGE}: {words[-1] if words else 'it said nothing'}")
    return parsed(done.stdout)


def parsed(text: str) -> tuple[str, ...]:
    """The versions in the answer of ``pip index versions``, newest first."""
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and name.strip() == "Available versions":
            return tuple(word for part in rest.split(",") if (word := part.strip()) and _is(word))
    return ()


def _is(word: str) -> bool:
    try:
        Version(word)
    except InvalidVersion:
        return False
    return True


def _document(found: Releases) -> dict[str, object]:
    return {
        "jax": found.jax,
        "jaxlib": found.jaxlib,
        "wanted": PACKAGE + found.wanted,
        "installed": found.installed or None,
        "releases": [{"version": one, "fits": found.fits(one)} for one in found.visible],
    }


def _lines(found: Releases) -> list[str]:
    fitting = [one for one in found.visible if found.fits(one)]
    others = [one for one in found.visible if not found.fits(one)]
    example = ",".join(reversed(found.visible[:2])) or "VERSION"
    asks = f"asks for {PACKAGE}{found.wanted}" if found.wanted else f"asks for no {PACKAGE}"
    return [
        f"jax {found.jax}, jaxlib {found.jaxlib}: {asks}",
        f"installed: {found.installed or 'none'}",
        f"these fit, of what pip finds: {', '.join(fitting) or 'none'}",
        f"these do not: {', '.join(others) or 'none'}",
        f"compare them: python -m pytest perf/ --topology=v5e:2x4 --libtpu={example}",
    ]
