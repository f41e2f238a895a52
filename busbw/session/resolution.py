"""Machine → Measured, of nothing yet: cases, what they are compared with, and what is left out.

Also writes the examples for training: a worker's interpreter need not have scikit-learn, so it gets
its handwritten digits as a file.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import files, grid
from busbw.baselines.document import BaselineError
from busbw.baselines.files import check_writable
from busbw.baselines.store import find, find_published
from busbw.driver.executor import Executor
from busbw.frameworks import FRAMEWORKS
from busbw.history.files import HistoryError
from busbw.judge.levels import Levels
from busbw.model.case import Case, GridError, NotHereError, Spec
from busbw.model.launch import OwnProcesses, Plan
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome

from . import machine, references
from .option import UsageError, usage_error
from .settings import Settings, how_to_get
from .state import Collected, Machine, Measured, TimedJob

# A launch of two stacks in turn costs two processes to start: a few more samples are worth it.
_PLAN_IN_TURN = Plan(samples=40, budget_s=1.5)


def resolved(
    collected: Collected,
    found: Machine,
    specs: tuple[Spec, ...],
    executor: Executor,
    folder: Path,
    say: Callable[[str], None],
) -> Measured:
    """All that will be measured; the training examples are written into `folder`.

    A reference stack is built, which `say` announces. Raises UsageError for a Spec that is
    no case, for a damaged baseline, for a reference that cannot be built or would measure other
    cases, and for a stack that cannot be locked as one.
    """
    target = found.target
    skipped, case_of = _cases(collected.settings, target, specs)
    frameworks = tuple(dict.fromkeys(spec.framework for spec in case_of))
    jobs, levels = _stored(collected, target, case_of)
    looked_at = ((name, references.lockable(collected.settings, name)) for name in frameworks)
    lockable = {name: one for name, one in looked_at if one is not None}
    collected = references.with_stacks(collected, target, frameworks, say)
    settings = collected.settings
    if settings.against is not None:
        found = machine.with_reference(settings, found, frameworks, executor)
        _check_same_cases(settings, target, case_of, found.references)
    with usage_error(HistoryError, OSError):
        nights = references.nights_of(settings, jobs.values())
        wrong_before = references.wrong_before(settings, jobs.values())
    for note in _notes(jobs.values(), levels.values(), wrong_before):
        executor.on_note(note)
    return Measured(
        collected=collected,
        machine=found,
        specs=specs,
        jobs=jobs,
        skipped=skipped,
        environment=machine.environment(settings, found, _widest(jobs.values())),
        plan=_plan(settings),
        levels=levels,
        nights=nights,
        wrong_before=wrong_before,
        lockable=lockable,
        examples=examples_for(case_of.values(), folder),
    )


def _widest(jobs: Iterable[TimedJob]) -> EnvironmentKey | None:
    """Cases of training on one device and in several processes have keys of their own."""
    keys = [job.key for job in jobs]
    return max(keys, key=lambda key: (key.ranks, -key.processes), default=None)


def _notes(
    jobs: Iterable[TimedJob], levels: Iterable[Levels], wrong_before: Mapping[Case, str]
) -> Iterator[str]:
    yield from dict.fromkeys(job.stored.nearest for job in jobs if job.stored.nearest)
    yield from _joined(levels)
    for case, day in wrong_before.items():
        yield f"{case.name}: wrong on {day}, and twice as often as others"


def _joined(levels: Iterable[Levels]) -> Iterator[str]:
    """That sessions of an hour count as one, where there are such."""
    sessions = (one.records.values() for level in levels for one in level.sessions)
    moments = [len({record.at for own in records for record in own}) for records in sessions]
    several = [count for count in moments if count > 1]
    if several:
        yield (
            "earlier sessions that began within an hour of each other count as one: "
            f"{sum(several)} are {len(several)} here"
        )


def _plan(settings: Settings) -> Plan:
    return replace(
        Plan() if settings.against is None else _PLAN_IN_TURN,
        launches=settings.launches,
        timeout_s=settings.case_timeout_s,
        seed=int.from_bytes(os.urandom(4), "big"),
        memory_limit_bytes=settings.memory_limit_bytes,
    )


def _cases(
    settings: Settings, target: grid.Target, specs: Sequence[Spec]
) -> tuple[dict[Spec, Verdict], dict[Spec, Case]]:
    """The Cases; a Spec that is for other devices or other sessions is SKIPPED with the reason."""
    skipped, found = {}, {}
    for spec in specs:
        reason = _left_out(spec, settings, target)
        with usage_error(GridError):
            try:
                if not reason:
                    found[spec] = grid.resolve(spec, target)
            except NotHereError as error:
                reason = str(error)
        if reason:
            skipped[spec] = Verdict(spec=spec, outcome=Outcome.SKIPPED, failed=False, text=reason)
    return skipped, found


def _left_out(spec: Spec, settings: Settings, target: grid.Target) -> str:
    if spec.framework in settings.absent_frameworks:
        return f"{spec.framework}: not installed here; {how_to_get(spec.framework)}"
    if spec.framework in target.unreached:
        return f"{spec.framework}: {target.unreached[spec.framework]}"
    if not isinstance(spec.workload, OwnProcesses):
        return ""
    if settings.shared_devices:
        return "training under a strategy shares no GPU; leave it out with -k 'not strategy'"
    if settings.against is not None:
        return "--against: groups of processes are not measured in turn with those of another stack"
    if settings.injection is not None:
        return "--inject: nothing is injected into groups of processes"
    return ""


def _check_same_cases(
    settings: Settings,
    ours: grid.Target,
    case_of: Mapping[Spec, Case],
    probed: Sequence[Probe],
) -> None:
    with usage_error(GridError, where="the reference: "):
        targets = {
            probe.framework: grid.choose_target(
                device=ours.device, ranks=settings.ranks, probes=[probe], named=[probe.framework]
            )
            for probe in probed
        }
        found = {spec: grid.resolve(spec, targets[spec.framework]) for spec in case_of}
    for spec, case in case_of.items():
        theirs, key = found[spec], targets[spec.framework].key(spec)
        pairs = (
            ("case", theirs.name, case.name),
            ("protocol", theirs.protocol.text, case.protocol.text),
            ("machine", str(key.folder), str(ours.key(spec).folder)),
        )
        if theirs != case or key != ours.key(spec):
            differ = "; ".join(f"{what} {a}, here {b}" for what, a, b in pairs if a != b)
            raise UsageError(f"--against: the reference would measure another case: {differ}")


def _stored(
    collected: Collected,
    target: grid.Target,
    case_of: Mapping[Spec, Case],
) -> tuple[dict[Spec, TimedJob], dict[EnvironmentKey, Levels]]:
    """The jobs and what they are held against, nothing for two stacks in turn.

    Read before anything is measured: a damaged file is found early.
    """
    settings = collected.settings
    jobs = {spec: TimedJob(case=case, key=target.key(spec)) for spec, case in case_of.items()}
    if settings.against is not None:
        return jobs, {}
    with usage_error(BaselineError, HistoryError, OSError):
        jobs = {spec: _with_stored(settings, job) for spec, job in jobs.items()}
        if settings.writes_baselines:
            check_writable(settings.baselines, [(job.key, job.case) for job in jobs.values()])
        keys = (job.key for job in jobs.values())
        return jobs, references.levels_at(collected, keys, target.device)


def _with_stored(settings: Settings, job: TimedJob) -> TimedJob:
    root, about = settings.baselines, (job.key, job.case)
    return replace(
        job,
        stored=find(root, *about, memory_limit_bytes=settings.memory_limit_bytes),
        published=find_published(root, *about) or find_published(files.shipped_baselines(), *about),
    )


def examples_for(cases: Iterable[Case], folder: Path) -> str:
    """The file's path; "" where no case needs it. Raises UsageError without scikit-learn.

    1797 digits of 8 x 8 pixels from 0 to 16, each followed by its label, each a byte.
    """
    if not check_examples(cases):
        return ""
    from sklearn.datasets import load_digits

    found, path = load_digits(), folder / "digits.bin"
    images, labels = found.images.astype("uint8"), found.target.astype("uint8")
    pairs = zip(images, labels, strict=True)
    path.write_bytes(b"".join(image.tobytes() + label.tobytes() for image, label in pairs))
    return str(path)


def check_examples(cases: Iterable[Case | Spec]) -> bool:
    """Whether any of `cases` learns examples. Raises UsageError if these are not here."""
    learns = any(
        isinstance(case.workload, OwnProcesses) and FRAMEWORKS[case.framework].learns_digits
        for case in cases
    )
    if learns and importlib.util.find_spec("sklearn") is None:
        raise UsageError(
            "training under a strategy learns the digits of scikit-learn, which is not "
            'installed here; pip install "busbw[tf]", or leave it out: -k "not strategy"'
        )
    return learns
