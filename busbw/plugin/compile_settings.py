"""What --topology and its companions ask for, checked; what is wrong raises ValueError."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw import baselines, driver, writing
from busbw.frameworks import COMPILED
from busbw.model import Topology

from .compilers import FAMILIES, Libtpu, libtpus_of, topologies_of
from .parsing import checked, flag

# Whose programs there are compilers for.


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSettings:
    """What to compile, and with what; `libtpus` is empty for the installed one.

    A topology of one of the `families` (``all``) whose compiler is missing is skipped, and that is
    said; one that was named is an error.
    """

    topologies: tuple[Topology, ...]
    libtpus: tuple[Libtpu, ...]
    families: frozenset[str]
    cache: Path | None
    accept_changes: bool


def _cache(text: str) -> Path | None:
    """The folder, in which files can be written; None for none."""
    folder = driver.cache_folder(text)
    if folder is not None:
        writing.check_folder(folder)
    return folder


# Options that say how or on what to measure, and those that are about measured baselines.
_MEASURING = (
    *("device", "ranks", "launches", "time_budget", "against", "against_env", "inject"),
    *("memory_limit", "accept_regression", "prune_baselines", "rebase"),
)
_COMPILING = ("libtpu", "compile_cache", "accept_compiled_changes")


def compile_settings_of(
    config: pytest.Config, texts: Mapping[str, str], pythons: Mapping[str, str], root: Path
) -> CompileSettings | None:
    """What --topology and the options beside it ask for, with the baselines in `root`.

    None without --topology.
    """
    if not texts["topology"]:
        for name in _COMPILING:
            if config.getoption(name):
                raise ValueError(f"{flag(name)}: only with --topology")
        return None
    for name in _MEASURING:
        if config.getoption(name):
            raise ValueError(f"{flag(name)}: not with --topology, which measures nothing")
    libtpus = checked("libtpu", libtpus_of, texts["libtpu"])
    if len(libtpus) > 1 and config.getoption("update_baselines"):
        raise ValueError("--update-baselines: with several --libtpu it is not clear whose")
    everywhere = bool(set(pythons) & set(COMPILED)) or bool(libtpus)
    everywhere = everywhere or texts["frameworks"] == "fake"
    framework = "fake" if texts["frameworks"] == "fake" else "jax"
    promised = functools.partial(baselines.has_compiled, root, framework=framework)
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
        accept_changes=config.getoption("accept_compiled_changes"),
    )
