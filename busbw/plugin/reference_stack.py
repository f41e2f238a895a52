"""The reference stack, built from its lock for --against=baseline, locked with new baselines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import files
from busbw.frameworks import FRAMEWORKS
from busbw.grid import Target
from busbw.model import variables
from busbw.model.case import Spec
from busbw.model.words import plural
from busbw.stacks.build import built, check_buildable, packages_of
from busbw.stacks.interpreter import installed, unlockable
from busbw.stacks.lock import Lock, StackError, path_of, paths_below, read
from busbw.workloads.collective import Collective

from .forms import BASELINE
from .session import Collected, Lockable, Measured
from .settings import Settings, usage_error


def with_stacks(
    collected: Collected, target: Target, frameworks: Sequence[str], say: Callable[[str], None]
) -> Collected:
    """Raises pytest.UsageError where there is no lock, and for one that cannot be built."""
    settings = collected.settings
    against = settings.against
    if against is None or not against.is_baseline:
        return collected
    locks: dict[str, Lock] = {}
    pythons: dict[str, str] = {}
    for framework in frameworks:
        with usage_error(StackError, where=f"--against={BASELINE}: {framework}: "):
            locks[framework] = lock = _lock_at(lock_path(settings, target, framework), framework)
            say(f"busbw reference: {framework} of {lock.date}, stack {lock.digest}")
            ours = settings.pythons.get(framework, sys.executable)
            pythons[framework] = built(settings.stack_cache, lock, [ours]).python
    found = replace(against, pythons=pythons, locks=locks)
    return replace(collected, settings=replace(settings, against=found))


def check_locked(settings: Settings, framework: str) -> None:
    """Which of several locks it is, only the devices say. Raises pytest.UsageError."""
    with usage_error(StackError, where=f"--against={BASELINE}: {framework}: "):
        paths = paths_below(settings.baselines, framework)
        if not paths:
            raise StackError(
                f"no stack is locked below {settings.baselines}; --update-baselines locks the one "
                "that it accepts"
            )
        ours = settings.pythons.get(framework, sys.executable)
        problems = [_problem(settings, path, framework, ours) for path in paths]
        if all(problems):
            raise StackError(problems[0])


def _problem(settings: Settings, path: Path, framework: str, ours: str) -> str:
    try:
        check_buildable(settings.stack_cache, read(path, framework), [ours])
    except StackError as error:
        return str(error)
    return ""


def _lock_at(path: Path, framework: str) -> Lock:
    if not path.exists():
        raise StackError(
            f"no stack is locked: there is no {path}; "
            "--update-baselines locks the one that it accepts"
        )
    return read(path, framework)


def lock_path(settings: Settings, target: Target, framework: str) -> Path:
    key = target.key(Spec(framework=framework, workload=Collective(), payload_bytes=1))
    return path_of(settings.baselines, key, framework)


def lockable(collected: Collected, frameworks: Sequence[str]) -> dict[str, Lockable]:
    """Nothing where nothing will be locked. Raises pytest.UsageError as `lockable_of` does."""
    known = collected.lockable
    found = {
        name: known[name] if name in known else lockable_of(collected.settings, name)
        for name in frameworks
    }
    return {name: one for name, one in found.items() if one is not None}


def lockable_of(settings: Settings, framework: str) -> Lockable | None:
    """The stack of `framework` that is locked if it is accepted; None where none will be.

    Before anything is measured: raises pytest.UsageError for a stack that no index could give
    again, with what to do. A scripted framework that is no package has no stack.
    """
    if not settings.update_baselines or not settings.locks_reference:
        return None
    with usage_error(StackError, where="--update-baselines: "):
        found = _lockable(settings, framework)
    return found if found.stack else None


def locked(measured: Measured, frameworks: Sequence[str]) -> tuple[str, ...]:
    """Lock the stacks of `frameworks`, whose times were accepted; notes on what is locked now.

    With times that were only added or that improved, a lock that is there stays. Raises StackError
    for what cannot be locked, and OSError.
    """
    settings, target = measured.resolved.settings, measured.resolved.machine.target
    notes, contents = [], {}
    for framework in frameworks:
        path = lock_path(settings, target, framework)
        if path.exists() and settings.update_baselines != "all":
            continue
        if framework not in measured.resolved.lockable:
            continue
        found = measured.resolved.lockable[framework]
        lock = _lock(framework, found, measured.resolved.collected.date)
        if path.exists() and read(path, framework).digest == lock.digest:
            continue
        contents[path] = lock.text
        notes.append(
            f"{framework}: its stack is the reference now, "
            f"{plural(len(lock.packages), 'package')} in {path}"
        )
    files.write_all(contents)
    return tuple(notes)


def _lock(framework: str, found: Lockable, date: str) -> Lock:
    return Lock(
        framework=framework,
        python=found.installed.python,
        platform=found.installed.platform,
        date=date,
        flags=variables.of_stack(os.environ, os.path.expanduser("~")),
        packages=packages_of(found.stack, found.python),
    )


def _lockable(settings: Settings, framework: str) -> Lockable:
    """The interpreter of `framework`, and its stack. Raises StackError if it cannot be locked."""
    python = settings.pythons.get(framework, sys.executable)
    found = installed(python)
    stack = found.stack(FRAMEWORKS[framework].packages)
    if stack:
        problem = _replaced() or unlockable(stack)
    elif not FRAMEWORKS[framework].scripted:
        problem = f"it is no package of {python}; give --no-reference-lock"
    else:
        problem = ""
    if problem:
        raise StackError(f"{framework}: {problem}")
    return Lockable(python=python, installed=found, stack=stack)


def _replaced() -> str:
    """Which library is loaded in place of an installed one; empty for none."""
    named = [f"{name}={os.environ[name]}" for name in variables.REPLACES if os.environ.get(name)]
    if not named:
        return ""
    return (
        f"{named[0]} is loaded in place of what is installed; unset it, or give --no-reference-lock"
    )
