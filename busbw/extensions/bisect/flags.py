"""Find which flags of a list change times or programs, compared with a session without flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw import storage
from busbw.extensions.bisect.criterion import FAILURES, SessionResult
from busbw.extensions.bisect.sessions import SessionError, SessionRunner
from busbw.model.words import DeviceClass, Outcome
from busbw.session.option import UsageError

_XLA_VARIABLE, _LIBTPU_VARIABLE = "XLA_FLAGS", "LIBTPU_INIT_ARGS"
_TPU_FLAG_PREFIXES = ("--xla_tpu", "--libtpu")
# The beginnings of options that select a TPU, or the topology of a TPU. Such a topology has the
# name of its chip, such as v5e or tpu7x.
_TPU_OPTION_PREFIXES = (
    "--topology=v",
    "--topology=tpu",
    "--topology=all",
    f"--device={DeviceClass.TPU.value}",
)
# The effects that flags can have, each with the outcomes that show it. If several effects show, the
# first of them is reported.
_OUTCOMES_BY_EFFECT: Mapping[str, tuple[Outcome, ...]] = {
    "refused": FAILURES,
    "changes": (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.CHANGED),
    "undecided": (Outcome.NOISY,),
}
NO_EFFECT = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagEffect:
    """The effect of compiler flags on the times or programs of a session.

    Attributes:
        flags: The flags, separated by spaces.
        effect: ``changes`` if a time or program changed, ``refused`` if a case failed or the
            session had no verdict, ``undecided`` if times are noisy, or ``nothing``.
        details: Sentences on the cases that show the effect, or the error of the session.

    """

    flags: str
    effect: str
    details: str = ""


def read_flags(path: Path) -> tuple[str, ...]:
    """Return the flags in the file `path`, each once, in the order of the file.

    Flags begin with ``--``, and are separated by spaces or line ends. The text after ``#`` in a
    line is a comment. Raises UsageError if the file cannot be read, or contains no flag or a word
    that is not a flag.
    """
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


def try_flags(session_runner: SessionRunner, flags: Sequence[str]) -> Iterator[FlagEffect]:
    """Yield the effect of all flags together, if `flags` has several, and then of each flag.

    A session is run for each effect when the effect is requested. Raises SessionError if programs
    are compared and the session without flags has no verdict.
    """
    if session_runner.is_compiling:
        session_runner.run_alone()
    # On a TPU all flags are for libtpu, which compiles for TPUs.
    on_tpu = any(
        option.lower().startswith(_TPU_OPTION_PREFIXES) for option in session_runner.options
    )
    flag_lists = [flags, *([flag] for flag in flags)] if len(flags) > 1 else [flags]
    for tested_flags in flag_lists:
        text = " ".join(tested_flags)
        variables: dict[str, str] = {}
        for flag in tested_flags:
            is_for_tpu = on_tpu or flag.startswith(_TPU_FLAG_PREFIXES)
            name = _LIBTPU_VARIABLE if is_for_tpu else _XLA_VARIABLE
            variables[name] = f"{variables.get(name, '')} {flag}".strip()
        try:
            result = session_runner.run_with_variables(variables)
        except SessionError as error:
            yield FlagEffect(flags=text, effect="refused", details=str(error))
        else:
            yield _effect_of_session(text, result)


def _effect_of_session(flags: str, result: SessionResult) -> FlagEffect:
    """Return the effect of `flags` (separated by spaces) that the result of a session shows."""
    for effect, outcomes in _OUTCOMES_BY_EFFECT.items():
        verdicts = [v for v in result.verdicts.values() if v.outcome in outcomes]
        if verdicts:
            details = "; ".join(verdict.headline() for verdict in verdicts)
            return FlagEffect(flags=flags, effect=effect, details=details)
    return FlagEffect(flags=flags, effect=NO_EFFECT)
