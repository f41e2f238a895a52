"""With --topology: the topologies and compilers to use, and releases of libtpu from pip.

Options to values; a wrong one raises ValueError with what is accepted. Nothing is downloaded before
it is needed.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from busbw import files
from busbw.baselines.store import has_compiled
from busbw.driver.parallel import cache_folder
from busbw.frameworks import COMPILED, FRAMEWORKS
from busbw.hardware.topologies import USUAL_TOPOLOGIES, topology_of
from busbw.model.machine import Topology
from busbw.model.words import Device
from busbw.model.workload import Framework

from .forms import checked, flag
from .option import Given

_VERSION = re.compile(r"\d+(\.\d+)+\w*")
_FETCH_TIMEOUT_S = 900.0
_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 300
_LIBRARY = "libtpu.so"

# Words for one topology of every chip, and the devices that they mean.
FAMILIES: Mapping[str, tuple[Device, ...]] = {
    "all": (Device.TPU, Device.GPU),
    "tpu": (Device.TPU,),
    "gpu": (Device.GPU,),
}

# The folders of packages that have a compiler.
_PACKAGES = {
    Device.TPU: ("libtpu",),
    Device.GPU: ("jax_plugins/xla_cuda13", "jax_plugins/xla_cuda12"),
}

# Options that say how or on what to measure, and those that are about measured baselines.
_MEASURING = (
    *("device", "ranks", "processes", "ranks_per_process", "agents", "hosts"),
    *("launches", "time_budget", "fail_above"),
    *("against", "against_env", "try_env", "inject"),
    *("history", "memory_limit", "accept_regression", "prune_baselines", "rebase"),
)
_COMPILING = ("libtpu", "compile_cache", "accept_compiled_changes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Libtpu:
    """One libtpu: a release that pip can download, or the path of a library."""

    label: str
    version: str = ""
    library: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSettings:
    """What to compile for, and with what; `libtpus` is empty for the installed one.

    A topology of one of the `families` (``all``) whose compiler is missing is skipped with a
    reason; a missing compiler for one that was named is an error.
    """

    topologies: tuple[Topology, ...]
    libtpus: tuple[Libtpu, ...]
    families: frozenset[str]
    cache: Path | None
    accept_changes: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of several compilers; a single one has none."""
        several = len(self.libtpus) > 1
        return tuple(f"libtpu{one.label}" for one in self.libtpus) if several else ("",)


def compile_settings_of(
    given: Given,
    texts: Mapping[str, str],
    values: Mapping[str, Any],
    pythons: Mapping[str, str],
    root: Path,
) -> CompileSettings | None:
    """None without --topology."""
    if not texts["topology"]:
        for name in _COMPILING:
            if given.options[name]:
                raise ValueError(f"{flag(name)}: only with --topology")
        return None
    for name in _MEASURING:
        if given.options[name]:
            raise ValueError(f"{flag(name)}: not with --topology, which measures nothing")
    libtpus = checked("libtpu", libtpus_of, texts["libtpu"])
    if len(libtpus) > 1 and given.options["update_baselines"]:
        raise ValueError("--update-baselines: with several --libtpu it is not clear whose")
    framework = _compiling(values["frameworks"])
    others = bool(set(pythons) & set(COMPILED))
    everywhere = others or bool(libtpus) or framework.scripted
    promised = functools.partial(has_compiled, root, framework=framework.name)
    words = {word.strip() for word in texts["topology"].split(",")}
    return CompileSettings(
        topologies=checked(
            "topology",
            lambda text: topologies_of(text, everywhere=everywhere, promised=promised),
            texts["topology"],
        ),
        libtpus=libtpus,
        families=frozenset(FAMILIES).intersection(words),
        cache=checked("compile_cache", _cache, texts["compile_cache"]),
        accept_changes=given.options["accept_compiled_changes"],
    )


def _compiling(named: Sequence[str]) -> Framework:
    """The one of the `named` frameworks that compiles; where none of them does, the usual one."""
    return FRAMEWORKS[next((name for name in COMPILED if name in named), COMPILED[0])]


def _cache(text: str) -> Path | None:
    folder = cache_folder(text)
    if folder is not None:
        files.check_folder(folder)
    return folder


def libtpus_of(text: str) -> tuple[Libtpu, ...]:
    """Versions, and paths of libraries or folders. Raises ValueError, for ``?`` with releases."""
    if text.strip() == "?":
        raise ValueError(_releases())
    found = tuple(_libtpu(word.strip()) for word in text.split(",") if word.strip())
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} stands twice")
    return found


def _libtpu(word: str) -> Libtpu:
    if _VERSION.fullmatch(word) and not Path(word).exists():
        return Libtpu(label=word, version=word)
    path = Path(word).expanduser().absolute()
    libraries = [path] if path.is_file() else sorted(path.glob(f"**/{_LIBRARY}"))
    if not libraries:
        raise ValueError(
            f"{word!r}; accepted is a version such as 0.0.42.1, or the path of a {_LIBRARY} or of "
            "a folder with one"
        )
    return Libtpu(label=_installed_version(libraries[0]) or path.name, library=libraries[0])


def _installed_version(library: Path) -> str:
    """The version in the metadata that pip installed with the library; empty without any."""
    found = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    return found[0].name.removeprefix("libtpu-").removesuffix(".dist-info") if found else ""


def topologies_of(
    text: str, *, everywhere: bool, promised: Callable[[Topology], bool]
) -> tuple[Topology, ...]:
    """The topologies of ``--topology``; ``all``, ``tpu`` and ``gpu``: the usual ones.

    The usual ones are those of every installed compiler, and those that have baselines: they must
    not be dropped silently when a compiler is uninstalled. With `everywhere` the compilers are
    another interpreter's, and all topologies are taken.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    found: list[Topology] = []
    for word in words:
        if word in FAMILIES:
            found += _usual(FAMILIES[word], everywhere=everywhere, promised=promised)
        else:
            found.append(topology_of(word))
    if words and not found:
        devices = {device for word in words for device in FAMILIES.get(word, ())}
        how = "; ".join(why for device, why in missing().items() if device in devices)
        raise ValueError(f"{text}: no compiler is installed here; {how}")
    return tuple(dict.fromkeys(found))


def _usual(
    devices: Sequence[Device], *, everywhere: bool, promised: Callable[[Topology], bool]
) -> list[Topology]:
    absent = {} if everywhere else missing()
    chips = map(topology_of, USUAL_TOPOLOGIES)
    return [
        one
        for one in chips
        if one.device in devices and (one.device not in absent or promised(one))
    ]


def missing() -> Mapping[Device, str]:
    folders = [Path(folder) for folder in sys.path if folder]
    return {
        device: f'no compiler for {device.value.upper()}s: pip install "busbw[compilers]"'
        for device, names in _PACKAGES.items()
        if not any((folder / name).is_dir() for folder in folders for name in names)
    }


def library_of(libtpu: Libtpu, cache: Path | None) -> Path:
    """Downloaded into the cache if it is not there. Raises ValueError with pip's own words."""
    if libtpu.library is not None:
        return libtpu.library
    if cache is None:
        raise ValueError(f"--libtpu={libtpu.label}: needs a --compile-cache to be fetched into")
    folder = cache / "libtpu" / libtpu.version
    try:
        if not folder.exists():
            _fetch(libtpu.version, folder)
    except OSError as error:
        raise ValueError(f"--libtpu={libtpu.label}: {files.reason(error)}") from error
    found = sorted(folder.glob(f"**/{_LIBRARY}"))
    if not found:
        raise ValueError(f"--libtpu={libtpu.label}: there is no {_LIBRARY} in {folder}")
    return found[0]


def _releases() -> str:
    """What pip finds, newest first, and what the extra `tpu` of the installed JAX asks for."""
    command = [sys.executable, "-m", "pip", "index", "versions", "libtpu"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check"], capture_output=True, check=False, text=True
    )
    _, _, rest = done.stdout.partition("Available versions:")
    found = rest.partition("\n")[0].strip() or f"none: {done.stderr.strip()[-_SHOWN_CHARACTERS:]}"
    jax = importlib.metadata.requires("jax") if importlib.util.find_spec("jax") else None
    wanted = [one for one in map(Requirement, jax or ()) if one.name == "libtpu" and one.marker]
    asked = {str(o.specifier) for o in wanted if o.marker and o.marker.evaluate({"extra": "tpu"})}
    fits = f"; the installed JAX asks for {', '.join(sorted(asked))}" if asked else ""
    return f"pip finds {found}{fits}"


def _fetch(version: str, folder: Path) -> None:
    """Download it whole or not at all, even if several sessions do so at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{version}."))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", str(new), f"libtpu=={version}"]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=_FETCH_TIMEOUT_S
        )
        if done.returncode != 0:
            words = "; ".join(done.stderr.strip().splitlines()[-_SHOWN_LINES:])
            raise ValueError(f"--libtpu={version}: pip could not fetch it: {words}")
        _move_to(new, folder)
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"--libtpu={version}: pip did not end within {_FETCH_TIMEOUT_S:g} s"
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _move_to(new: Path, folder: Path) -> None:
    """Rename `new`, unless another session was faster: what it downloaded is the same."""
    try:
        os.replace(new, folder)
    except OSError:
        if not folder.is_dir():
            raise
