"""The anchor and what can be injected, in real JAX: values stay right, and the work is really done.

What a test wants to see of a program is asserted in the process that has it.
"""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES
from busbw.model import Extra, Failure, FailureKind, Injection, Run
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = real.needs("jax")

# Between laying out and running: the input buffers change their sign that number of times.
ANCHORED = """
right = program.CollectiveProgram.fresh
def fresh(self):
    if self._buffers:
        self.anchor(3)
    right(self)
    self.anchor({passes})
put(program.CollectiveProgram, "fresh", fresh)
"""

# A step of the busy loop is three shifts and exclusive ors; the collective has none.
BUSY = """
right = program.CollectiveProgram.__init__
def init(self, *arguments, **options):
    right(self, *arguments, **options)
    assert (" xor(" in self._call.as_text()) == (self._injected.steps > 0)
put(program.CollectiveProgram, "__init__", init)
"""

WITHOUT_THE_PART = """
from busbw.worker.backends.jax import collective as forms
put(forms, "work", lambda injected, axes, count, result: 0)
"""

A_PART_OF_OTHER_BYTES = """
from busbw.worker.backends.jax import collective as forms
from busbw.worker.backends.jax.injection import InjectedWork
right = forms.work
put(forms, "work", lambda injected, axes, count, result: right(
    InjectedWork(part=injected.part + 1), axes, count, result))
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

CASES = {
    "in place": {},
    "out of place": OUT_OF_PLACE,
    "a maximum": {"reduce_op": "max"},
    "int32": {"dtype": "int32"},
    "single calls": DISPATCH,
    "single calls out of place": {**DISPATCH, **OUT_OF_PLACE},
    **{
        name: {"collective": name, "reduce_op": "none", **OUT_OF_PLACE}
        for name in ("all_gather", "all_to_all", "permute")
    },
}

SABOTAGES = {
    **{
        f"{name}, even": Sabotage(code=ANCHORED.format(passes=4), case=case)
        for name, case in CASES.items()
    },
    **{
        f"{name}, odd": Sabotage(code=ANCHORED.format(passes=5), case=case)
        for name, case in CASES.items()
    },
    "without": Sabotage(code=BUSY),
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
    "without again": Sabotage(code=BUSY),
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


@pytest.mark.parametrize("name", CASES)
def test_the_anchor_goes_over_the_buffers_and_leaves_the_next_result_right(
    results: Results, name: str
) -> None:
    run = _run(results, f"{name}, even")
    assert run.values_checked > 0
    assert run.anchors_s and min(run.anchors_s) > 0


@pytest.mark.parametrize("name", [name for name in CASES if name != "a maximum"])
def test_every_pass_of_the_anchor_changes_every_sign_so_that_an_odd_one_is_seen(
    results: Results, name: str
) -> None:
    _refused(results[f"{name}, odd"], FailureKind.WRONG_RESULT, "rank 0, element 0: ")


@pytest.mark.parametrize(
    "name", ["delay", "delay in microseconds", "delay out of place", "delay of a gather"]
)
def test_a_delay_is_in_the_program_and_touches_no_value(results: Results, name: str) -> None:
    run = _run(results, name)
    assert run.injected == ("delay:50us" if "micro" in name else "delay:200%")
    assert run.values_checked > 0


@pytest.mark.parametrize("name", ["without", "without again"])
def test_without_an_injection_nothing_is_beside_the_collective(results: Results, name: str) -> None:
    run = _run(results, name)
    assert (run.injected, run.proof.collectives) == ("", {"all-reduce": 4})
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
    assert run.proof == _run(results, "without").proof


def test_every_collective_has_its_anchor() -> None:
    assert set(COLLECTIVES) - set(CASES) == {"all_reduce", "reduce_scatter"}
