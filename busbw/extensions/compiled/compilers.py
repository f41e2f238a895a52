"""The topologies to compile for, and the compilers to use, as the options say.

A wrong value raises ValueError with the values that are expected. No release of libtpu is
downloaded before it is needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import storage
from busbw.extensions.program.options import program_sources
from busbw.model.words import Device
from busbw.session.arguments import cache_folder, expand_home
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import is_named_csv
from busbw.session.options import Options

from .topologies import USUAL_TOPOLOGIES, topology_of
from .worker_values import Topology

# The frameworks whose programs can be compiled for a topology; the first is the default.
COMPILING_FRAMEWORKS = ("jax", "fake")

_VERSION = re.compile(r"\d+(\.\d+)+\w*")
_LIBRARY = "libtpu.so"

# Words that stand for a topology of each chip, and the kinds of devices that they include.
TOPOLOGY_FAMILIES: Mapping[str, tuple[Device, ...]] = {
    "all": (Device.TPU, Device.GPU),
    "tpu": (Device.TPU,),
    "gpu": (Device.GPU,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Libtpu:
    """A release of libtpu, named by its `label`.

    `library` is the path of the installed library; None if uv has to download the release.
    """

    label: str
    library: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSettings:
    """The topologies to compile for, and the compilers to use.

    `libtpus` is empty for the installed libtpu. `families` are the words for several topologies,
    such as ``all``, that the user gave. With such a word a topology without a compiler is skipped;
    without it a missing compiler is an error. `cache` is the folder in which compiled programs are
    kept; None to keep nothing. With `accept_changes` a changed algorithm is not a failure.
    `programs` are the user's programs, which are compiled instead of the collectives; empty if
    there are no such programs.
    """

    topologies: tuple[Topology, ...]
    libtpus: tuple[Libtpu, ...]
    families: frozenset[str]
    cache: Path | None
    accept_changes: bool
    programs: tuple[str, ...] = ()

    @property
    def compiler_labels(self) -> tuple[str, ...]:
        """The labels of the compilers; a single compiler has the empty label."""
        several = len(self.libtpus) > 1
        return tuple(f"libtpu{libtpu.label}" for libtpu in self.libtpus) if several else ("",)


def compile_settings(options: Options) -> CompileSettings | None:
    """Return the topologies to compile for and the compilers to use; None without --topology.

    Raises UsageError if an option is wrong or does not go with --topology.
    """
    text, extra = options.extra.get("topology", ""), options.extra
    if not text:
        return None
    if options.names_frameworks and not set(options.frameworks) <= set(COMPILING_FRAMEWORKS):
        names = ",".join(options.frameworks)
        raise UsageError(f"--frameworks: expected jax with --topology, got {names!r}")
    if "results" in options.outputs and is_named_csv(options.outputs["results"].name):
        raise UsageError("--results: expected a JSON file with --topology: a table has times")
    with usage_error(ValueError, where="--libtpu: "):
        libtpus = parse_libtpus(extra.get("libtpu", ""))
    if len(libtpus) > 1 and options.update_baselines:
        raise UsageError("--update-baselines: with several --libtpu it is not clear whose")
    with usage_error(ValueError, where="--topology: "):
        topologies = parse_topologies(text)
    with usage_error(ValueError, where="--compile-cache: "):
        cache = _checked_cache_folder(extra.get("compile_cache", ""))
    return CompileSettings(
        topologies=topologies,
        libtpus=libtpus,
        families=frozenset(TOPOLOGY_FAMILIES).intersection(
            word.strip() for word in text.split(",")
        ),
        cache=cache,
        accept_changes="accept_compiled_changes" in extra,
        programs=program_sources(options),
    )


def _checked_cache_folder(text: str) -> Path | None:
    """Return the folder that --compile-cache names; None for ``none``.

    Raises ValueError if the path cannot be used as a folder.
    """
    folder = cache_folder(text)
    if folder is not None:
        storage.check_writable_folder(folder)
    return folder


def parse_libtpus(text: str) -> tuple[Libtpu, ...]:
    """Return the releases of --libtpu, each once.

    `text` is a list of versions, and of paths of libraries or their folders. Raises ValueError if a
    word is neither a version nor such a path.
    """
    words = filter(None, map(str.strip, text.split(",")))
    return tuple({libtpu.label: libtpu for libtpu in map(_parse_libtpu, words)}.values())


def _parse_libtpu(word: str) -> Libtpu:
    if _VERSION.fullmatch(word) and not Path(word).exists():
        return Libtpu(label=word)
    path = expand_home(word).absolute()
    libraries = [path] if path.is_file() else sorted(path.glob(f"**/{_LIBRARY}"))
    if not libraries:
        raise ValueError(
            f"{word!r}; accepted is a version such as 0.0.42.1, or the path of a {_LIBRARY} or of "
            "a folder with one"
        )
    return Libtpu(label=_installed_libtpu_version(libraries[0]) or path.name, library=libraries[0])


def _installed_libtpu_version(library: Path) -> str:
    """Return the version that pip noted beside a library; empty without such a note."""
    records = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    return records[0].name.removeprefix("libtpu-").removesuffix(".dist-info") if records else ""


def parse_topologies(text: str) -> tuple[Topology, ...]:
    """Return the topologies of --topology, each once.

    The words ``all``, ``tpu`` and ``gpu`` stand for a topology of each chip. Raises ValueError if a
    topology is unknown.
    """
    topologies: list[Topology] = []
    for word in filter(None, map(str.strip, text.split(","))):
        usual = map(topology_of, USUAL_TOPOLOGIES if word in TOPOLOGY_FAMILIES else (word,))
        topologies += [
            t for t in usual if word not in TOPOLOGY_FAMILIES or t.device in TOPOLOGY_FAMILIES[word]
        ]
    return tuple(dict.fromkeys(topologies))


def find_or_download_library(libtpu: Libtpu, cache: Path | None) -> Path:
    """Return the path of a libtpu, which uv first downloads into `cache` if necessary.

    Raises UsageError, with the message of uv, if the release cannot be downloaded.
    """
    if libtpu.library is not None:
        return libtpu.library
    with usage_error(ImportError, ValueError, where=f"--libtpu={libtpu.label}: "):
        # The extension that builds stacks may be deleted: only a download needs it.
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
