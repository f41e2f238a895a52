"""Files of optimized HLO: what XLA writes to the folder of ``--xla_dump_to``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from busbw import storage, wire
from busbw.worker.backends.hlo import module as hlo

from .worker_inventory import COMPUTATION, ranks_in, uses_of
from .worker_values import ProgramError, Uses

_IS_SCHEDULED = "is_scheduled=true"
_BRACED = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}")
_RANK = re.compile(r"\d+")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|condition|body|(?:true|false)_computation"
    r"|(?:branch|called)_computations)=(\{[^}]*\}|%?[\w.-]+)"
)
_NAME = re.compile(r"[\w.-]+")
# Instructions in whose brackets there is a value.
_WITHOUT_OPERANDS = ("constant", "parameter", "iota")


def read(path: Path, ranks: int | None = None) -> Uses:
    """Return the collectives of the optimized HLO in a file, which gzip may have packed.

    `ranks` is how many take part, where the session says it. Raises ProgramError or InputError for
    anything else, with what to do.
    """
    # Editors on Windows write a mark first and end lines with two characters.
    content = storage.unpacked(storage.read(path))
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    conflict = wire.left_by_git(content)
    if conflict:
        raise ProgramError(f"line {conflict}")
    head = text.partition("\n")[0]
    if not head.startswith("HloModule ") or _IS_SCHEDULED not in hlo.unquoted(head):
        raise ProgramError(
            f"its first line is {head[:60]!r}; expected optimized HLO as text, with HloModule and "
            f"{_IS_SCHEDULED}, such as module_0000.NAME.cpu_after_optimizations.txt"
        )
    if "\nHloModule " in text:
        raise ProgramError("it has several programs; expected a file for each")
    uses = uses_of(text, ranks=ranks)
    _check_whole(text)
    groups = max((use.ranks * use.groups for use in uses), default=0)
    compiled_for = ranks_in(head) or groups
    # Permutes and groups of unequal sizes may leave ranks out, but name none that is not there.
    named = (int(rank) for part in _BRACED.findall(text) for rank in _RANK.findall(part))
    highest = max(named, default=-1) + 1
    if ranks and (compiled_for not in (0, ranks) or highest > ranks):
        most = max(compiled_for, highest)
        raise ProgramError(f"it is compiled for {most} ranks, expected {ranks} (--ranks)")
    return uses


def _check_whole(text: str) -> None:
    """Raise ProgramError if computations or instructions are missing or there twice."""
    called = (
        name for part in set(_CALLED.findall(hlo.unquoted(text))) for name in _NAME.findall(part)
    )
    _check_names(COMPUTATION.findall(text), called)
    for lines in hlo.read(text).computations.values():
        computing = (line for line in lines if line.op not in _WITHOUT_OPERANDS)
        operands = (name for line in computing for name in line.operands)
        _check_names([line.name for line in lines], operands)
    if text.count("\nENTRY ") > 1:
        raise ProgramError("it has two entries: expected the file as XLA wrote it")


def _check_names(names: Sequence[str], needed: Iterable[str]) -> None:
    """Raise ProgramError unless each name that is needed is there, and each once.

    After a bad merge, or a cut, the rest would be counted without a message.
    """
    missing = sorted(set(needed) - set(names))
    if missing:
        raise ProgramError(f"it runs {missing[0]!r}, which is missing: expected the whole file")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ProgramError(f"it has {twice[0]!r} twice: expected the file as XLA wrote it")
