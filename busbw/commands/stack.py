"""`busbw stack list|build|prune`: list, build or remove the reference stacks of baselines.

Reads the locks beside baselines; builds and removes environments in the cache, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from busbw.model.words import bytes_text, plural
from busbw.session.folders import stack_cache_of
from busbw.session.option import Option
from busbw.stacks import build
from busbw.stacks.lock import NAMES, Lock, StackError, read

from . import BASELINES, MACHINE, Commands, UsageError, add_command, command_error, usage_error

ORDER = 1

_OPTIONS = (
    Option(
        name="action",
        nargs="",
        choices=("list", "build", "prune"),
        metavar="ACTION",
        help="list: show the locked environments, and which are built; build: build them; prune: "
        "remove environments that no baseline uses",
    ),
    replace(BASELINES, help="Read the locks beside the baselines in DIR"),
    replace(MACHINE, help="Use only the locks of one machine, such as tpu-v5-lite/4r"),
    Option(
        name="stack_cache",
        metavar="DIR",
        help="Keep environments and wheels in DIR (default: busbw in the user's cache folder)",
    ),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "stack",
        run,
        *_OPTIONS,
        help="List, build or remove locked reference environments",
        description="List, build or remove reference stacks. busbw run --update-baselines locks "
        "the Python, packages and flags that it measured; --against=baseline builds that "
        "environment again, and keeps it in a cache. This command changes nothing but the cache.",
        example="busbw stack list",
    )


def run(options: argparse.Namespace) -> int:
    with usage_error(ValueError):
        cache = stack_cache_of(options.stack_cache)
    with command_error(StackError):
        locks = _locks(options.baselines, options.machine)
        if options.action == "build" and not locks:
            raise UsageError(f"{options.baselines} holds no lock; --update-baselines writes them")
        for line in _ACTIONS[options.action](locks, cache):
            print(line)
    return 0


def _locks(root: Path, machine: str | None) -> dict[Path, Lock]:
    if not root.is_dir():
        raise UsageError(f"--baselines: there is no folder {root}")
    paths = sorted(root.glob(f"{machine or '*/*'}/{NAMES}"))
    if machine and not paths:
        raise UsageError(f"--machine: {root} has no lock for {machine}")
    return {path: read(path) for path in paths}


def _list(locks: Mapping[Path, Lock], cache: Path) -> Iterator[str]:
    built = {one.digest: one for one in build.all_built(cache)}
    for path, lock in locks.items():
        there = built.get(lock.digest)
        state = "not built" if there is None else "torn" if there.is_torn else str(there.folder)
        versions = next((p.version for p in lock.packages if p.name == lock.framework), "?")
        yield (
            f"{lock.digest}  {lock.framework} {versions}, Python {lock.python} for "
            f"{lock.platform}, {plural(len(lock.packages), 'package')}, locked {lock.date}: {state}"
        )
        yield f"  {path}"
    if not locks:
        yield "no stack is locked: busbw run --update-baselines locks what it measures"
    for digest in sorted(built.keys() - {lock.digest for lock in locks.values()}):
        yield f"{digest}  belongs to no lock here: {built[digest].folder}; stack prune removes it"


def _build(locks: Mapping[Path, Lock], cache: Path) -> Iterator[str]:
    for path, lock in locks.items():
        yield f"{lock.digest}  {path}: {build.built(cache, lock, [sys.executable]).python}"


def _prune(locks: Mapping[Path, Lock], cache: Path) -> Iterator[str]:
    before = _bytes_below(cache)
    for folder in build.prune(cache, list(locks.values())):
        yield f"removed {folder}"
    yield f"{bytes_text(before - _bytes_below(cache))} freed"


def _bytes_below(cache: Path) -> int:
    folders = (cache / "stacks", cache / "wheels")
    files = (path for folder in folders for path in folder.rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())


_ACTIONS = {"list": _list, "build": _build, "prune": _prune}
