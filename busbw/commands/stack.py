"""`python -m busbw stack list|build|prune`: the reference stacks of baselines, and what is built.

Reads the locks beside baselines; builds and removes environments in the cache, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from busbw.driver.parallel import cache_folder
from busbw.model.words import bytes_text, plural
from busbw.stacks import build
from busbw.stacks.build import Built, all_built, prune
from busbw.stacks.lock import SUFFIX, Lock, StackError, read

from . import Commands, UsageError, add_command, command_error, name_of

ORDER = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """A lock and where it is."""

    path: Path
    lock: Lock


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "stack",
        run,
        help="reference stacks: which are locked, which are built",
        description=__doc__ or "",
    )
    names = ", ".join(_ACTIONS)
    parser.add_argument("action", type=name_of(_ACTIONS), metavar="ACTION", help=f"one of {names}")
    parser.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        default=Path("baselines"),
        help="the folder with the locks (baselines)",
    )
    parser.add_argument(
        "--machine", metavar="NAME", help="those of one machine, such as tpu-v5-lite/4r"
    )
    parser.add_argument(
        "--stack-cache",
        default="",
        metavar="DIR",
        help="where environments and wheels are kept (default: busbw in the user's cache folder)",
    )


def run(options: argparse.Namespace) -> int:
    cache = cache_folder(options.stack_cache)
    if cache is None:
        raise UsageError("--stack-cache: 'none'; accepted is a folder")
    with command_error(StackError):
        return _ACTIONS[options.action](options, cache)


def _locks(options: argparse.Namespace) -> list[_Found]:
    root: Path = options.baselines
    if not root.is_dir():
        raise UsageError(f"--baselines: there is no folder {root}")
    paths = sorted(root.glob(f"{options.machine or '*/*'}/*{SUFFIX}"))
    if options.machine and not paths:
        raise UsageError(f"--machine: {root} has no lock for {options.machine}")
    return [_Found(path=path, lock=read(path, path.name.removesuffix(SUFFIX))) for path in paths]


def _list(options: argparse.Namespace, cache: Path) -> int:
    print("\n".join(_lines(_locks(options), {one.digest: one for one in all_built(cache)})))
    return 0


def _lines(found: list[_Found], built: dict[str, Built]) -> Iterator[str]:
    for one in found:
        lock, there = one.lock, built.get(one.lock.digest)
        state = "not built" if there is None else "torn" if there.is_torn else str(there.folder)
        versions = next((p.version for p in lock.packages if p.name == lock.framework), "?")
        yield (
            f"{lock.digest}  {lock.framework} {versions}, Python {lock.python} for "
            f"{lock.platform}, {plural(len(lock.packages), 'package')}, locked {lock.date}: {state}"
        )
        yield f"  {one.path}"
    if not found:
        yield "no stack is locked: pytest perf/ --update-baselines locks what it measured"
    named = {one.lock.digest for one in found}
    for digest in sorted(built.keys() - named):
        yield f"{digest}  belongs to no lock here: {built[digest].folder}; stack prune removes it"


def _build(options: argparse.Namespace, cache: Path) -> int:
    found = _locks(options)
    if not found:
        raise UsageError(f"{options.baselines} holds no lock; --update-baselines writes them")
    for one in found:
        there = build.built(cache, one.lock, [sys.executable])
        print(f"{one.lock.digest}  {one.path}: {there.python}")
    return 0


def _prune(options: argparse.Namespace, cache: Path) -> int:
    before = _bytes_below(cache)
    gone = prune(cache, [one.lock for one in _locks(options)])
    for folder in gone:
        print(f"removed {folder}")
    print(f"{bytes_text(before - _bytes_below(cache))} freed")
    return 0


def _bytes_below(cache: Path) -> int:
    folders = (cache / "stacks", cache / "wheels")
    files = (path for folder in folders for path in folder.rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())


_ACTIONS = {"list": _list, "build": _build, "prune": _prune}
