"""Find the flags of a list that change something, each by itself, next to no flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import storage
from busbw.extensions.bisect.criterion import FAILURES, SessionResult
from busbw.extensions.bisect.sessions import SessionError, Sessions
from busbw.model.words import Device, Outcome
from busbw.session.errors import UsageError

_XLA, _LIBTPU = "XLA_FLAGS", "LIBTPU_INIT_ARGS"
_TPU_FLAGS = ("--xla_tpu", "--libtpu")
# The effects of flags, in the order of their weight, and the outcomes that show them.
_EFFECTS: Mapping[str, tuple[Outcome, ...]] = {
    "refused": FAILURES,
    "changes": (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.CHANGED),
    "undecided": (Outcome.NOISY,),
}
NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagEffect:
    """The effect of flags: ``changes``, ``nothing``, ``refused`` or ``undecided``, and details."""

    flags: str
    effect: str
    details: str = ""


def read_flags(path: Path) -> tuple[str, ...]:
    """Read flags that are separated by spaces or line ends; text after ``#`` is a comment."""
    try:
        text = storage.read(path).decode()
    except (storage.InputError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    flags = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    invalid = [word for word in flags if not word.startswith("--")]
    if invalid or not flags:
        raise UsageError(
            f"{path}: expected flags such as --xla_cpu_enable_fast_math=true, one in each line, "
            f"got {invalid[0] if invalid else 'none'}"
        )
    return tuple(dict.fromkeys(flags))


def try_flags(sessions: Sessions, flags: Sequence[str]) -> Iterator[FlagEffect]:
    """Yield the effect of all flags together, if there are several, and then of each."""
    if sessions.is_compiled:
        sessions.run_alone()
    lists = [flags, *([flag] for flag in flags)] if len(flags) > 1 else [flags]
    for some in lists:
        text = " ".join(some)
        try:
            result = sessions.run_with_variables(_variables(some, sessions.options))
        except SessionError as error:
            yield FlagEffect(flags=text, effect="refused", details=str(error))
        else:
            yield _effect(text, result)


def _variables(flags: Sequence[str], options: Sequence[str]) -> Mapping[str, str]:
    """Return the variables with flags. On a TPU, libtpu compiles and reads all of them."""
    on_tpu = any(map(_is_tpu, options))
    variables: dict[str, str] = {}
    for flag in flags:
        name = _LIBTPU if on_tpu or flag.startswith(_TPU_FLAGS) else _XLA
        variables[name] = f"{variables.get(name, '')} {flag}".strip()
    return variables


def _is_tpu(option: str) -> bool:
    # A topology of a TPU has the name of its chip, such as v5e or tpu7x.
    of_tpus = ("--topology=v", "--topology=tpu", "--topology=all", f"--device={Device.TPU.value}")
    return option.lower().startswith(of_tpus)


def _effect(text: str, result: SessionResult) -> FlagEffect:
    for effect, outcomes in _EFFECTS.items():
        verdicts = [v for v in result.verdicts.values() if v.outcome in outcomes]
        if verdicts:
            details = "; ".join(verdict.headline() for verdict in verdicts)
            return FlagEffect(flags=text, effect=effect, details=details)
    return FlagEffect(flags=text, effect=NOTHING)
