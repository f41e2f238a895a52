"""With --topology: the topologies and compilers to use, and releases of libtpu.

Options to values; a wrong one raises ValueError with what is accepted. Nothing is downloaded before
it is needed.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw import storage
from busbw.baselines.store import has_compiled
from busbw.frameworks import COMPILED, FRAMEWORKS
from busbw.hardware.topologies import USUAL_TOPOLOGIES, topology_of
from busbw.model.machine import Topology
from busbw.model.words import Device

from . import homes
from .forms import checked
from .option import usage_error

_VERSION = re.compile(r"\d+(\.\d+)+\w*")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Libtpu:
    """One libtpu: the path of a library, or without one a release that uv can download."""

    label: str
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
    values: Mapping[str, Any], pythons: Mapping[str, str], root: Path
) -> CompileSettings | None:
    """None without --topology."""
    text = values["topology"]
    if not text:
        return None
    libtpus = checked("libtpu", libtpus_of, values["libtpu"] or "")
    if len(libtpus) > 1 and values["update_baselines"]:
        raise ValueError("--update-baselines: with several --libtpu it is not clear whose")
    # The one of those named that compiles; where none of them does, the usual one.
    named = [name for name in COMPILED if name in values["frameworks"]]
    framework = FRAMEWORKS[(named or COMPILED)[0]]
    everywhere = bool(set(pythons) & set(COMPILED) or libtpus or framework.scripted)
    promised = functools.partial(has_compiled, root, framework=framework.name)
    asked = functools.partial(topologies_of, everywhere=everywhere, promised=promised)
    return CompileSettings(
        topologies=checked("topology", asked, text),
        libtpus=libtpus,
        families=frozenset(FAMILIES).intersection(word.strip() for word in text.split(",")),
        cache=checked("compile_cache", _cache, values["compile_cache"] or ""),
        accept_changes=values["accept_compiled_changes"],
    )


def _cache(text: str) -> Path | None:
    folder = homes.cache_folder(text)
    if folder is not None:
        storage.check_folder(folder)
    return folder


def libtpus_of(text: str) -> tuple[Libtpu, ...]:
    """Return versions, and paths of libraries or folders. Raises ValueError."""
    found = tuple(_libtpu(word.strip()) for word in text.split(",") if word.strip())
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} stands twice")
    return found


def _libtpu(word: str) -> Libtpu:
    if _VERSION.fullmatch(word) and not Path(word).exists():
        return Libtpu(label=word)
    path = homes.expanded(word).absolute()
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
    absent = {} if everywhere else missing()
    found: list[Topology] = []
    for word in words:
        if word not in FAMILIES:
            found.append(topology_of(word))
            continue
        for one in map(topology_of, USUAL_TOPOLOGIES):
            if one.device in FAMILIES[word] and (one.device not in absent or promised(one)):
                found.append(one)
    if words and not found:
        devices = {device for word in words for device in FAMILIES[word]}
        how = "; ".join(why for device, why in absent.items() if device in devices)
        raise ValueError(f"{text}: no compiler is installed here; {how}")
    return tuple(dict.fromkeys(found))


def missing() -> Mapping[Device, str]:
    folders = [Path(folder) for folder in sys.path if folder]
    return {
        device: f'no compiler for {device.value.upper()}s: pip install "busbw[compilers]"'
        for device, names in _PACKAGES.items()
        if not any((folder / name).is_dir() for folder in folders for name in names)
    }


def library_of(libtpu: Libtpu, cache: Path | None) -> Path:
    """Return the library, which uv downloads into the cache if it is not there.

    Raises UsageError with uv's own words.
    """
    if libtpu.library is not None:
        return libtpu.library
    from busbw.extensions.stacks import uv

    with usage_error(ValueError, where=f"--libtpu={libtpu.label}: "):
        if cache is None:
            raise ValueError("needs a --compile-cache to be fetched into")
        folder = cache / "libtpu" / libtpu.label
        install = ("pip", "install", "--quiet", "--no-deps", "--no-build")
        release = (f"--python={sys.executable}", f"libtpu=={libtpu.label}")
        uv.build_once(folder, lambda new: uv.uv(*install, *release, "--target", new))
        found = sorted(folder.glob(f"**/{_LIBRARY}"))
        if not found:
            raise ValueError(f"there is no {_LIBRARY} in {folder}")
        return found[0]
