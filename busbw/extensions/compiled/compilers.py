"""With --topology: the topologies and compilers to use, and releases of libtpu.

Options to values; a wrong one raises ValueError with what is accepted. Nothing is downloaded before
it is needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import storage
from busbw.extensions.program.options import sources_of
from busbw.model.words import Device
from busbw.session.arguments import cache_folder, expand_home
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import is_named_csv
from busbw.session.options import Options

from .topologies import USUAL_TOPOLOGIES, topology_of
from .worker_values import Topology

# The frameworks whose programs can be compiled for a topology, the usual one first.
COMPILED = ("jax", "fake")

_VERSION = re.compile(r"\d+(\.\d+)+\w*")
_LIBRARY = "libtpu.so"

# Words for one topology of every chip, and the devices that they mean.
FAMILIES: Mapping[str, tuple[Device, ...]] = {
    "all": (Device.TPU, Device.GPU),
    "tpu": (Device.TPU,),
    "gpu": (Device.GPU,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Libtpu:
    """One libtpu: the path of a library, or without one a release that uv can download."""

    label: str
    library: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSettings:
    """What to compile for, and with what; `libtpus` is empty for the installed one.

    `programs` are compiled in place of the collectives, if there are any. A topology of one of the
    `families` (``all``) whose compiler is missing is skipped with a
    reason; a missing compiler for one that was named is an error.
    """

    topologies: tuple[Topology, ...]
    libtpus: tuple[Libtpu, ...]
    families: frozenset[str]
    cache: Path | None
    accept_changes: bool
    programs: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of several compilers; a single compiler has none."""
        several = len(self.libtpus) > 1
        return tuple(f"libtpu{libtpu.label}" for libtpu in self.libtpus) if several else ("",)


def compile_settings(options: Options) -> CompileSettings | None:
    """Return what to compile for, and with what; None without --topology. Raises UsageError."""
    text, extra = options.extra.get("topology", ""), options.extra
    if not text:
        return None
    if options.names_frameworks and not set(options.frameworks) <= set(COMPILED):
        names = ",".join(options.frameworks)
        raise UsageError(f"--frameworks: expected jax with --topology, got {names!r}")
    if "results" in options.outputs and is_named_csv(options.outputs["results"].name):
        raise UsageError("--results: expected a JSON file with --topology: a table has times")
    with usage_error(ValueError, where="--libtpu: "):
        libtpus = libtpus_of(extra.get("libtpu", ""))
    if len(libtpus) > 1 and options.update_baselines:
        raise UsageError("--update-baselines: with several --libtpu it is not clear whose")
    with usage_error(ValueError, where="--topology: "):
        topologies = topologies_of(text)
    with usage_error(ValueError, where="--compile-cache: "):
        cache = _cache(extra.get("compile_cache", ""))
    return CompileSettings(
        topologies=topologies,
        libtpus=libtpus,
        families=frozenset(FAMILIES).intersection(word.strip() for word in text.split(",")),
        cache=cache,
        accept_changes="accept_compiled_changes" in extra,
        programs=sources_of(options),
    )


def _cache(text: str) -> Path | None:
    folder = cache_folder(text)
    if folder is not None:
        storage.check_writable_folder(folder)
    return folder


def libtpus_of(text: str) -> tuple[Libtpu, ...]:
    """Return versions, and paths of libraries or folders, each once. Raises ValueError."""
    words = filter(None, map(str.strip, text.split(",")))
    return tuple({libtpu.label: libtpu for libtpu in map(_libtpu, words)}.values())


def _libtpu(word: str) -> Libtpu:
    if _VERSION.fullmatch(word) and not Path(word).exists():
        return Libtpu(label=word)
    path = expand_home(word).absolute()
    libraries = [path] if path.is_file() else sorted(path.glob(f"**/{_LIBRARY}"))
    if not libraries:
        raise ValueError(
            f"{word!r}; accepted is a version such as 0.0.42.1, or the path of a {_LIBRARY} or of "
            "a folder with one"
        )
    return Libtpu(label=_installed_version(libraries[0]) or path.name, library=libraries[0])


def _installed_version(library: Path) -> str:
    """Return the version in the metadata that pip installed with the library, or ""."""
    records = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    return records[0].name.removeprefix("libtpu-").removesuffix(".dist-info") if records else ""


def topologies_of(text: str) -> tuple[Topology, ...]:
    """Return the topologies of ``--topology``; of ``all``, ``tpu`` and ``gpu`` one of each chip."""
    topologies: list[Topology] = []
    for word in filter(None, map(str.strip, text.split(","))):
        usual = map(topology_of, USUAL_TOPOLOGIES if word in FAMILIES else (word,))
        topologies += [t for t in usual if word not in FAMILIES or t.device in FAMILIES[word]]
    return tuple(dict.fromkeys(topologies))


def library_of(libtpu: Libtpu, cache: Path | None) -> Path:
    """Return the library, which uv downloads into the cache if it is not there.

    Raises UsageError with uv's own words.
    """
    if libtpu.library is not None:
        return libtpu.library
    with usage_error(ImportError, ValueError, where=f"--libtpu={libtpu.label}: "):
        # Only a download needs the extension that builds stacks.
        from busbw.extensions.stacks import uv

        if cache is None:
            raise ValueError("needs a --compile-cache to be fetched into")
        folder = cache / "libtpu" / libtpu.label
        install = ("pip", "install", "--quiet", "--no-deps", "--no-build")
        release = (f"--python={sys.executable}", f"libtpu=={libtpu.label}")
        uv.build_once(folder, lambda new: uv.run_uv(*install, *release, "--target", new))
        libraries = sorted(folder.glob(f"**/{_LIBRARY}"))
        if not libraries:
            raise ValueError(f"there is no {_LIBRARY} in {folder}")
        return libraries[0]
