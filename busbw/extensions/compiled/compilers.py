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
from busbw.session.arguments import cache_folder
from busbw.session.errors import UsageError, usage_error
from busbw.session.files import is_named_csv
from busbw.session.options import Options

from .topologies import USUAL_TOPOLOGIES, topology_of
from .worker_values import Topology

# The frameworks whose programs can be compiled for a topology; the first is the default.
COMPILING_FRAMEWORKS = ("jax", "fake")

_VERSION = re.compile(r"\d+(\.\d+)+\w*")

# Words that stand for a topology of each chip, and the kinds of devices that they include.
TOPOLOGY_FAMILIES: Mapping[str, tuple[Device, ...]] = {
    "all": (Device.TPU, Device.GPU),
    "tpu": (Device.TPU,),
    "gpu": (Device.GPU,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSettings:
    """The topologies to compile for, and the compilers to use.

    `libtpu_versions` are the values of --libtpu; empty for the installed libtpu. `cache` is the
    folder of compiled programs and downloaded compilers; None to keep nothing. `accepts_changes`
    says that a changed algorithm is no failure. `programs` are the user's programs, which are
    compiled instead of the collectives; empty if there are none.
    """

    topologies: tuple[Topology, ...]
    libtpu_versions: tuple[str, ...]
    cache: Path | None
    accepts_changes: bool
    programs: tuple[str, ...] = ()

    @property
    def compiler_labels(self) -> tuple[str, ...]:
        """The labels of the compilers; a single compiler has the empty label."""
        if len(self.libtpu_versions) < 2:
            return ("",)
        return tuple(f"libtpu{version}" for version in self.libtpu_versions)


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
        versions = parse_libtpu_versions(extra.get("libtpu", ""))
    if len(versions) > 1 and options.update_baselines:
        raise UsageError("--update-baselines: with several --libtpu it is not clear whose")
    with usage_error(ValueError, where="--topology: "):
        topologies = parse_topologies(text)
    with usage_error(ValueError, where="--compile-cache: "):
        cache = _checked_cache_folder(extra.get("compile_cache", ""))
    return CompileSettings(
        topologies=topologies,
        libtpu_versions=versions,
        cache=cache,
        accepts_changes="accept_compiled_changes" in extra,
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


def parse_libtpu_versions(text: str) -> tuple[str, ...]:
    """Return the versions in the comma list of --libtpu, each once.

    Raises ValueError if a word is not a version.
    """
    versions = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for version in versions:
        if not _VERSION.fullmatch(version):
            raise ValueError(f"expected versions such as 0.0.42.1, got {version!r}")
    return versions


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


def download_libtpu(version: str, cache: Path | None) -> Path:
    """Download a version of libtpu with uv, unless `cache` contains it, and return its library.

    Raises UsageError, with the message of uv, if the version cannot be downloaded, or if `cache` is
    None.
    """
    with usage_error(ImportError, ValueError, where=f"--libtpu={version}: "):
        # The extension that builds stacks may be deleted: only a download needs it.
        from busbw.extensions.stacks import uv

        if cache is None:
            raise ValueError("needs a --compile-cache to be fetched into")
        folder = cache / "libtpu" / version
        install = ("pip", "install", "--quiet", "--no-deps", "--no-build")
        release = (f"--python={sys.executable}", f"libtpu=={version}")
        uv.build_once(folder, lambda new: uv.run_uv(*install, *release, "--target", new))
        return folder / "libtpu" / "libtpu.so"
