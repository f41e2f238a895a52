"""The effect of each flag in a list: a change, a refusal or no effect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.extensions.bisect.flags import read_flags, try_flags
from busbw.extensions.bisect.sessions import SessionResult, SessionRunner
from busbw.extensions.stacks.environments import StackError
from busbw.model.case import CaseSpec
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome


class Scripted(SessionRunner):
    """Sessions whose outcomes depend on the flags; they keep their variables."""

    def __init__(self, outcomes: Mapping[str, Outcome | str], *options: str) -> None:
        super().__init__(
            framework="fake", options=options, baselines_folder=Path(), is_compiling=False
        )
        self.outcomes, self.variables = outcomes, list[Mapping[str, str]]()

    def run_alone(self, python: str) -> SessionResult:
        self.variables.append({})
        return SessionResult(verdicts={})

    def run_with_variables(self, variables: Mapping[str, str]) -> SessionResult:
        self.variables.append(variables)
        outcome = self.outcomes.get(" ".join(variables.values()), Outcome.PASS)
        if not isinstance(outcome, Outcome):
            raise StackError(outcome)
        spec = CaseSpec(framework="fake", payload_bytes=1024)
        verdict = Verdict(spec=spec, outcome=outcome, failed=False, text="so")
        return SessionResult(verdicts={spec.id: verdict})


@pytest.mark.parametrize(
    ("outcome", "effect"),
    [
        (Outcome.PASS, "nothing"),
        (Outcome.IMPROVED, "changes"),
        (Outcome.CHANGED, "changes"),
        (Outcome.NOISY, "undecided"),
        (Outcome.COMPILE_ERROR, "refused"),
        (Outcome.FAILED, "refused"),
    ],
)
def test_the_outcome_of_a_session_shows_the_effect_of_its_flag(
    outcome: Outcome, effect: str
) -> None:
    ((flags, shown_effect, _),) = try_flags(Scripted({"--a": outcome}), ["--a"])
    assert (flags, shown_effect) == ("--a", effect)


@pytest.mark.parametrize(
    ("is_compiling", "variables"),
    [(False, [{"XLA_FLAGS": "--a"}]), (True, [{}, {"XLA_FLAGS": "--a"}])],
)
def test_a_session_without_flags_runs_before_flags_are_tried_only_if_sessions_compile(
    is_compiling: bool, variables: list[Mapping[str, str]]
) -> None:
    sessions = Scripted({})
    sessions.is_compiling = is_compiling
    list(try_flags(sessions, ["--a"]))
    assert sessions.variables == variables


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ((), {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1", "XLA_FLAGS": "--xla_b=2"}),
        (("--topology=h100:8",), {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1", "XLA_FLAGS": "--xla_b=2"}),
        (("--device=tpu",), {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1 --xla_b=2"}),
        (("--topology=v5e:2x4",), {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1 --xla_b=2"}),
    ],
)
def test_flags_for_tpus_are_set_in_the_variable_of_libtpu(
    options: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    sessions = Scripted({}, *options)
    list(try_flags(sessions, ["--xla_tpu_a=1", "--xla_b=2"]))
    assert sessions.variables[0] == variables


def test_a_line_in_a_file_of_flags_may_have_one_flag_or_several_flags(tmp_path: Path) -> None:
    path = tmp_path / "flags"
    path.write_text("# ours\n--a=1 --b\n\n--a=1  # again\n--c=x,y\n")
    assert read_flags(path) == ("--a=1", "--b", "--c=x,y")
