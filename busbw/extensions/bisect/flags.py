"""Find which flags of a list change times or programs, compared with a session without flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from busbw import storage
from busbw.extensions.bisect.sessions import FAILURES, SessionResult, SessionRunner
from busbw.extensions.stacks.environments import StackError
from busbw.model.words import DeviceClass, Outcome
from busbw.session.option import UsageError, as_usage_error

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


def read_flags(path: Path) -> tuple[str, ...]:
    """Return the flags in the file `path`, each once, in the order of the file.

    Flags begin with ``--``, and are separated by spaces or line ends. The text after ``#`` in a
    line is a comment. Raises UsageError if the file cannot be read, if it contains no flag, or if
    it contains a word that does not begin with ``--``.
    """
    with as_usage_error(ValueError, where=f"{path}: "):
        text = storage.read(path).decode()
    flags = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    invalid = [word for word in flags if not word.startswith("--")]
    if invalid or not flags:
        raise UsageError(
            f"{path}: expected flags such as --xla_cpu_enable_fast_math=true, one in each line, "
            f"got {invalid[0] if invalid else 'none'}"
        )
    return tuple(dict.fromkeys(flags))


def try_flags(
    session_runner: SessionRunner, flags: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Run a session with all flags together, and then a session with each flag alone.

    A single flag has a single session. Each session runs when the caller requests the next tuple of
    this generator. If the sessions compile, a session without flags runs first.

    Yields:
        A tuple for each session: the flags, separated by spaces; the effect of the flags; and
        sentences on the cases that show the effect, or the error of the session. The effect is
        ``changes`` if a time or program changed, ``refused`` if a case failed or the session had no
        verdict, ``undecided`` if times are noisy, or else NO_EFFECT.

    Raises:
        StackError: The session without flags has no verdict.

    """
    if session_runner.is_compiling:
        session_runner.begin_subject("without flags")
        session_runner.run_alone(sys.executable)
    # On a TPU all flags are for libtpu, which compiles for TPUs.
    on_tpu = any(
        option.lower().startswith(_TPU_OPTION_PREFIXES) for option in session_runner.options
    )
    for tested_flags in [flags, *([flag] for flag in flags)] if len(flags) > 1 else [flags]:
        text = " ".join(tested_flags)
        session_runner.begin_subject(text)
        variables: dict[str, str] = {}
        for flag in tested_flags:
            is_for_tpu = on_tpu or flag.startswith(("--xla_tpu", "--libtpu"))
            name = "LIBTPU_INIT_ARGS" if is_for_tpu else "XLA_FLAGS"
            variables[name] = f"{variables.get(name, '')} {flag}".strip()
        try:
            yield text, *_effect_of_session(session_runner.run_with_variables(variables))
        except StackError as error:
            yield text, "refused", str(error)


def _effect_of_session(result: SessionResult) -> tuple[str, str]:
    """Return the effect of flags by the result of their session, and sentences on its cases.

    The effects are those that `try_flags` yields. The sentences are about the cases that show the
    effect, and are empty for NO_EFFECT.
    """
    for effect, outcomes in _OUTCOMES_BY_EFFECT.items():
        verdicts = [v for v in result.verdicts.values() if v.outcome in outcomes]
        if verdicts:
            return effect, "; ".join(verdict.headline() for verdict in verdicts)
    return NO_EFFECT, ""
