"""Which flags of a recipe do something: each by itself, beside none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import storage
from busbw.hardware.topologies import GPUS
from busbw.model.words import Device, Outcome

from .steps import Answer, Sessions, StepError

_XLA, _LIBTPU = "XLA_FLAGS", "LIBTPU_INIT_ARGS"
_TPU = ("--xla_tpu", "--libtpu")
_BROKEN = (Outcome.FAILED, Outcome.OUT_OF_MEMORY, Outcome.COMPILE_ERROR)
_NOISY = (Outcome.NOISY,)
_MOVED = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.CHANGED)


class FlagsError(ValueError):
    """A file that holds no flags; the message says what is accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """What a flag does here: ``changes``, ``nothing``, ``refused`` or ``undecided``, and how."""

    text: str
    does: str
    how: str = ""


def flags_in(path: Path) -> tuple[str, ...]:
    """One a line, or several apart by spaces; what follows ``#`` is a comment."""
    try:
        text = storage.read(path).decode()
    except (storage.InputError, UnicodeDecodeError) as error:
        raise FlagsError(f"{path}: {error}") from error
    found = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    wrong = [word for word in found if not word.startswith("--")]
    if wrong or not found:
        raise FlagsError(
            f"{path}: {wrong[0] if wrong else 'no flags'}; accepted are flags such as "
            "--xla_cpu_enable_fast_math=true, one in each line"
        )
    return tuple(dict.fromkeys(found))


def tried(sessions: Sessions, flags: Sequence[str]) -> Iterator[Flag]:
    """All of them together first, then each; `sessions` compare with none."""
    if sessions.is_compiled:
        sessions.alone()
    recipes = [flags, *([one] for one in flags)] if len(flags) > 1 else [flags]
    on_tpu = any(map(_names_a_tpu, sessions.options))
    for some in recipes:
        text = " ".join(some)
        try:
            yield _flag(text, sessions.with_environment(_environment(some, on_tpu=on_tpu)))
        except StepError as error:
            yield Flag(text=text, does="refused", how=str(error))


def _names_a_tpu(option: str) -> bool:
    name, _, value = option.partition("=")
    chip = value.partition(":")[0].lower()
    return (name == "--topology" and chip not in GPUS) or option == f"--device={Device.TPU.value}"


def _environment(flags: Sequence[str], *, on_tpu: bool) -> Mapping[str, str]:
    """By the variable that each is of. For a TPU all are libtpu's own, which compiles."""
    found: dict[str, str] = {}
    for flag in flags:
        name = _LIBTPU if on_tpu or flag.startswith(_TPU) else _XLA
        found[name] = f"{found.get(name, '')} {flag}".strip()
    return found


def _flag(text: str, answer: Answer) -> Flag:
    by_outcome: dict[Outcome, list[str]] = {}
    for one in answer.verdicts.values():
        by_outcome.setdefault(one.outcome, []).append(one.headline())
    for does, outcomes in (("refused", _BROKEN), ("changes", _MOVED), ("undecided", _NOISY)):
        said = [words for outcome in outcomes for words in by_outcome.get(outcome, ())]
        if said:
            return Flag(text=text, does=does, how="; ".join(said))
    return Flag(text=text, does="nothing")
