"""What can be injected in real JAX: values stay right, and the work is really done.

What a test wants to see of a program is asserted in the process that has it.
"""

from __future__ import annotations

import pytest

from busbw.model import Extra, Failure, FailureKind, Injection, Run
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = [real.needs("jax"), pytest.mark.exhaustive]

# A step of the busy loop is three shifts and exclusive ors; the collective has none.
BUSY = """
right = program.CollectiveProgram.__init__
def init(self, *arguments, **options):
    right(self, *arguments, **options)
    assert " xor(" not in self._call.as_text()
    assert (" xor(" in self._slowed.as_text()) == {delays} if self._slowed else not {delays}
put(program.CollectiveProgram, "__init__", init)
"""
NOT_BUSY, BUSY = BUSY.format(delays=False), BUSY.format(delays=True)

WITHOUT_THE_PART = """
from busbw.worker.backends.jax import collective as forms
put(forms, "begun", lambda injected, axes, asked: (asked, lambda count, result: 0))
"""

A_PART_OF_OTHER_BYTES = """
from busbw.worker.backends.jax import collective as forms
from busbw.worker.backends.jax.injection import InjectedWork
right = forms.begun
put(forms, "begun", lambda injected, axes, asked: right(
    InjectedWork(part=injected.part + 1 if injected.part else 0), axes, asked))
"""

DELAY = Injection(extra=Extra.DELAY, share=2.0)
MICROSECONDS = Injection(extra=Extra.DELAY, seconds=50e-6)
PART = Injection(extra=Extra.PAYLOAD, share=0.25)
WHOLE = Injection(extra=Extra.PAYLOAD, share=1.0)
SLEEP = Injection(extra=Extra.SLEEP, seconds=1e-3)

DISPATCH = {"protocol": "dispatch/chain2"}
OUT_OF_PLACE = {"placement": "out_of_place"}
GATHER = {"collective": "all_gather", "reduce_op": "none", **OUT_OF_PLACE}
TINY = {"payload_bytes": 4}

SABOTAGES = {
    "without": Sabotage(code=NOT_BUSY),
    "delay": Sabotage(code=BUSY, injection=DELAY),
    "delay in microseconds": Sabotage(code=BUSY, injection=MICROSECONDS),
    "delay out of place": Sabotage(code=BUSY, case=OUT_OF_PLACE, injection=DELAY),
    "delay of a gather": Sabotage(code=BUSY, case=GATHER, injection=DELAY),
    "delay of single calls": Sabotage(code="", case=DISPATCH, injection=DELAY),
    "part": Sabotage(code="", injection=PART),
    "part out of place": Sabotage(code="", case=OUT_OF_PLACE, injection=PART),
    "part of int32": Sabotage(code="", case={"dtype": "int32"}, injection=PART),
    "part of a maximum": Sabotage(code="", case={"reduce_op": "max"}, injection=PART),
    "part of a gather": Sabotage(code="", case=GATHER, injection=PART),
    "part of single calls": Sabotage(code="", case=DISPATCH, injection=PART),
    "part of all": Sabotage(code="", injection=WHOLE),
    "part of one element": Sabotage(code="", case=TINY, injection=PART),
    "part left out": Sabotage(code=WITHOUT_THE_PART, injection=PART),
    "another part": Sabotage(code=A_PART_OF_OTHER_BYTES, injection=PART),
    "sleep": Sabotage(code="", injection=SLEEP),
    "without again": Sabotage(code=NOT_BUSY),
}

Results = dict[str, "Run | Failure"]


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("jax", SABOTAGES)


def _run(results: Results, name: str) -> Run:
    run = results[name]
    assert isinstance(run, Run), run
    return run


def _refused(found: Run | Failure, kind: FailureKind, said: str) -> None:
    assert isinstance(found, Failure), found
    assert found.kind is kind, found.message
    assert said in found.message


@pytest.mark.parametrize(
    "name", ["delay", "delay in microseconds", "delay out of place", "delay of a gather"]
)
def test_a_delay_is_in_the_program_and_touches_no_value(results: Results, name: str) -> None:
    run = _run(results, name)
    assert run.injected == ("delay:50us" if "micro" in name else "delay:200%")
    assert run.values_checked > 0
    # How large it is, is asked of the fake, whose clock is exact: this machine may be busy.
    assert run.injected_ratio is not None and run.injected_ratio > 0


@pytest.mark.parametrize("name", ["without", "without again"])
def test_without_an_injection_nothing_is_beside_the_collective(results: Results, name: str) -> None:
    run = _run(results, name)
    assert (run.injected, run.injected_ratio) == ("", None)
    assert run.proof.collectives == {"all-reduce": 4}
    assert run.proof.payload_copies == 0


@pytest.mark.parametrize(
    ("name", "there"),
    [("part", {5, 8}), ("part out of place", {2}), ("part of int32", {5, 8})],
)
def test_a_second_collective_is_in_the_program_and_the_proof_and_touches_no_value(
    results: Results, name: str, there: set[int]
) -> None:
    run = _run(results, name)
    assert run.injected == "payload:25%"
    # XLA may make one of those of a turn.
    assert list(run.proof.collectives) == ["all-reduce"]
    assert run.proof.collectives["all-reduce"] in there
    assert run.proof.array_bytes == 4096
    assert run.values_checked > 0


@pytest.mark.parametrize("name", ["part left out", "another part"])
def test_a_second_collective_that_is_not_there_as_asked_is_refused(
    results: Results, name: str
) -> None:
    said = "expected a second collective of 1024 bytes with each one"
    _refused(results[name], FailureKind.NOT_A_COLLECTIVE, said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("delay of single calls", "a delay is for chains, not single calls"),
        ("part of single calls", "a payload is for chains, not single calls"),
        ("part of a gather", "a second collective is for all-reduces only"),
        ("part of all", "a second collective of 4096 bytes is no part of 4096"),
        ("part of one element", "a second collective of 4 bytes is no part of 4"),
    ],
)
def test_what_cannot_be_injected_is_unavailable_and_no_number(
    results: Results, name: str, said: str
) -> None:
    _refused(results[name], FailureKind.UNAVAILABLE, said)


def test_a_sleep_is_the_host_s_and_leaves_the_program_as_it_is(results: Results) -> None:
    run = _run(results, "sleep")
    assert run.injected == "sleep:1000us"
    # How large it is, is asked of the fake, whose clock is exact: this machine may be busy.
    assert run.injected_ratio is not None and run.injected_ratio > 0
    assert run.proof == _run(results, "without").proof
