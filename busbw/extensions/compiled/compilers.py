"""The compilers of a session: how their workers are started, and releases of libtpu to download."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from busbw import storage
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.session.arguments import cache_folder
from busbw.session.errors import usage_error
from busbw.session.machine import python_of
from busbw.session.options import Options

from .worker_values import RELEASE_VARIABLE

# Environment variables of workers that compile, by framework; a value that the user set wins.
COMPILER_ENVIRONMENT = {
    "jax": {
        # A compiler needs no hardware: do not search for it, here or in a cloud's metadata.
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        # Several processes may load libtpu at once, because they do not use a chip.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
}


def compiler_labels(options: Options) -> tuple[str, ...]:
    """Return the labels of the compilers; a single compiler has the empty label."""
    versions = options.extra.get("libtpu", ())
    return tuple(f"libtpu{version}" for version in versions) if len(versions) > 1 else ("",)


def compile_cache_folder(options: Options) -> Path | None:
    """Return the folder of compiled programs and downloaded compilers; None to keep nothing.

    Raises UsageError if --compile-cache names no folder that can be written.
    """
    with usage_error(ValueError, where="--compile-cache: "):
        folder = cache_folder(options.extra.get("compile_cache", ""))
        if folder is not None:
            storage.check_writable_folder(folder)
    return folder


def compiler_starters(options: Options) -> dict[str, Starter]:
    """Return the starter of workers for each compiler, by the label of the compiler.

    Raises UsageError if a release of libtpu is missing and cannot be downloaded.
    """
    # A session that compiles has a single framework.
    framework = options.frameworks[0]
    starter = Starter(
        python=python_of(options, framework),
        framework=framework,
        service="compile",
        default_variables=COMPILER_ENVIRONMENT.get(framework, {}),
    )
    starters = dict.fromkeys(compiler_labels(options), starter)
    for label, version in zip(starters, options.extra.get("libtpu", ())):
        environment = {RELEASE_VARIABLE: f"libtpu {version}"}
        if not FRAMEWORKS[framework].is_scripted:
            library = download_libtpu(version, compile_cache_folder(options))
            environment["TPU_LIBRARY_PATH"] = str(library)
        starters[label] = replace(starter, environment=environment)
    return starters


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
