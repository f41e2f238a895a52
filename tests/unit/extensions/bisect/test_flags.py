"""Which flags of a recipe do something, are refused, or do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.extensions.bisect.flags import Flag, FlagsError, flags_in, tried
from busbw.extensions.bisect.steps import Answer, Sessions, StepError
from busbw.model.case import Spec
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.model.workload import Workload


class Scripted(Sessions):
    """What a session says of each environment; the environments that it was asked for."""

    def __init__(self, outcomes: Mapping[str, Outcome | str], *, compiled: bool = False) -> None:
        super().__init__(framework="fake", options=(), baselines=Path(), is_compiled=compiled)
        self.outcomes, self.asked = outcomes, list[Mapping[str, str]]()

    def alone(self, *stack: str) -> Answer:
        return self._said(Outcome.NO_BASELINE)

    def with_environment(self, variables: Mapping[str, str]) -> Answer:
        self.asked.append(variables)
        said = self.outcomes.get(" ".join(variables.values()), Outcome.PASS)
        if not isinstance(said, Outcome):
            raise StepError(said)
        return self._said(said)

    def _said(self, outcome: Outcome) -> Answer:
        spec = Spec(framework="fake", payload_bytes=1024, workload=Workload())
        found = Verdict(spec=spec, outcome=outcome, failed=False, text="so")
        return Answer(verdicts={spec.id: found})


def test_each_flag_is_tried_by_itself_after_all_of_them() -> None:
    sessions = Scripted(
        {"--a=1 --b": Outcome.REGRESSED, "--a=1": Outcome.REGRESSED, "--c": "Unknown flag: --c"}
    )
    assert list(tried(sessions, ["--a=1", "--b", "--c"])) == [
        Flag(text="--a=1 --b --c", does="nothing"),
        Flag(text="--a=1", does="changes", how="REGRESSED: so"),
        Flag(text="--b", does="nothing"),
        Flag(text="--c", does="refused", how="Unknown flag: --c"),
    ]


@pytest.mark.parametrize(
    ("outcome", "does"),
    [
        (Outcome.PASS, "nothing"),
        (Outcome.IMPROVED, "changes"),
        (Outcome.CHANGED, "changes"),
        (Outcome.NOISY, "undecided"),
        (Outcome.COMPILE_ERROR, "refused"),
        (Outcome.FAILED, "refused"),
    ],
)
def test_a_flag_does_what_the_outcome_says(outcome: Outcome, does: str) -> None:
    (found,) = tried(Scripted({"--a": outcome}, compiled=True), ["--a"])
    assert found.does == does


def test_flags_for_tpus_have_a_variable_of_their_own() -> None:
    sessions = Scripted({})
    list(tried(sessions, ["--xla_tpu_a=1", "--xla_b=2"]))
    assert sessions.asked[0] == {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1", "XLA_FLAGS": "--xla_b=2"}


@pytest.mark.parametrize("option", ["--device=tpu", "--topology=v5e:2x4"])
def test_for_a_tpu_all_are_libtpu_s_as_recipes_have_them(option: str) -> None:
    sessions = Scripted({})
    sessions.options = (option,)
    list(tried(sessions, ["--xla_tpu_a=1", "--xla_b=2"]))
    assert sessions.asked[0] == {"LIBTPU_INIT_ARGS": "--xla_tpu_a=1 --xla_b=2"}
    sessions.options = ("--topology=h100:8",)
    list(tried(sessions, ["--xla_b=2"]))
    assert sessions.asked[-1] == {"XLA_FLAGS": "--xla_b=2"}


def test_a_recipe_has_a_flag_in_each_line_or_several(tmp_path: Path) -> None:
    path = tmp_path / "flags"
    path.write_text("# ours\n--a=1 --b\n\n--a=1  # again\n--c=x,y\n")
    assert flags_in(path) == ("--a=1", "--b", "--c=x,y")


@pytest.mark.parametrize("text", ["", "# nothing\n", "--a\nxla_b=2\n"])
def test_what_is_no_recipe_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "flags"
    path.write_text(text)
    with pytest.raises(FlagsError, match="accepted are flags such as"):
        flags_in(path)


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlagsError):
        flags_in(tmp_path / "gone")
