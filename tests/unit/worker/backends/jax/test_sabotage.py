"""JAX's back end, broken in every way that would give a number for something else: none gives one.

All in one process: what a sabotage replaced is put back before the next one.
"""

from __future__ import annotations

import pytest

from busbw.collectives.base import replica_groups_of
from busbw.model.launch import Failure, Run
from busbw.model.words import FailureKind
from tests.helpers import frameworks as real
from tests.helpers.frameworks import Results, Sabotage, refused

pytestmark = real.needs("jax")

NOTHING = Sabotage(code="")


THE_OTHER_AXIS = """
right = program.choose_uncompiled_program
put(program, "choose_uncompiled_program", lambda case, axes, rounds, **options: right(
    case, ("x",), rounds, **options))
"""


# A round of the four that reads what the last one read.
ONE_ROUND_APART = """
from busbw.worker.backends.jax import collective as forms
right = forms._run_between_buffers
put(forms, "_run_between_buffers", lambda one, number, first, second: (one(first), second)
    if {apart} and number == 3 else right(one, number, first, second))
"""


STALE = """
right = door.JaxProgram.run
last = {}
def run(self, iterations):
    right(self, iterations)
    now = self.result.copy()
    if iterations in last:
        self.result = last[iterations]
    last[iterations] = now
put(door.JaxProgram, "run", run)
"""


# The compiled program is the right one, but nobody calls it.
NOT_RUN = """
put(door.JaxProgram, "run", lambda self, iterations: vars(self).update(
    _turns_run=iterations // self.iterations_per_turn,
    result=self.inputs[self._uncompiled.result_index]))
"""


PERMUTE = {
    "collective": "permute",
    "reduce_op": "none",
    "strategy": "lax",
    "placement": "out_of_place",
}
ALONG_Y = {"mesh": "2x2", "axes": "y"}
MAX = {"reduce_op": "max"}

SABOTAGES = {
    "nothing": NOTHING,
    "without the collective": Sabotage(
        code="""
            from busbw.worker.backends.jax import collective as forms
            put(forms.lowerings, "all_reduce", lambda case, axes, values: values + values)
            """,
    ),
    "half the ranks": Sabotage(
        code="""
            import jax
            from busbw.worker.backends.jax import collective as forms
            halves = [[0, 1], [2, 3]]
            whole = jax.shard_map
            put(jax, "shard_map", lambda *args, **options: whole(*args, check_vma=False, **options))
            put(forms.lowerings, "all_reduce", lambda case, axes, values: jax.lax.psum(
                values, axes, axis_index_groups=halves))
            """,
    ),
    "the other axis": Sabotage(code=THE_OTHER_AXIS, case=ALONG_Y),
    "all axes": Sabotage(code=THE_OTHER_AXIS.replace('("x",)', '("x", "y")'), case=ALONG_Y),
    "to the rank before": Sabotage(
        case=PERMUTE,
        code="""
            import jax
            from busbw.worker.backends.jax import lowerings
            pairs = [(i, (i - 1) % 4) for i in range(4)]
            put(lowerings, "permute", lambda case, axes, values: jax.lax.ppermute(
                values, axes, pairs))
            """,
    ),
    "maximum for sum": Sabotage(
        code="""
            import jax
            from busbw.worker.backends.jax import lowerings, versions
            put(lowerings, "all_reduce", lambda case, axes, values: versions.type_as_varying(
                jax.lax.pmax(values, axes), axes))
            """,
    ),
    "no round apart": Sabotage(code=ONE_ROUND_APART.replace("{apart}", "False")),
    "one round apart": Sabotage(code=ONE_ROUND_APART.replace("{apart}", "True")),
    "one round apart in a maximum": Sabotage(
        code=ONE_ROUND_APART.replace("{apart}", "True"), case=MAX
    ),
    "one of four left out": Sabotage(
        case=MAX,
        code="""
            from busbw.worker.backends.jax import collective as forms
            right = forms._run_between_buffers
            put(forms, "_run_between_buffers", lambda one, number, first, second: (first, second)
                if number == 3 else right(one, number, first, second))
            """,
    ),
    "too few turns": Sabotage(
        case=MAX,
        code="""
            right = door.JaxProgram.run
            def run(self, iterations):
                right(self, max(0, iterations - self.iterations_per_turn))
            put(door.JaxProgram, "run", run)
            """,
    ),
    "too few turns unseen": Sabotage(
        code="""
            right = door.JaxProgram.run
            def run(self, iterations):
                right(self, max(0, iterations - self.iterations_per_turn))
                self._turns_run = iterations // self.iterations_per_turn
            put(door.JaxProgram, "run", run)
            """,
    ),
    "stale": Sabotage(code=STALE),
    "stale maximum": Sabotage(code=STALE, case=MAX),
    "off by one bit": Sabotage(
        code="""
            right = door.JaxProgram.run
            def run(self, iterations):
                right(self, iterations)
                self.result = self.result.at[2 * 1024 + 700].multiply(1 + 2**-23)
            put(door.JaxProgram, "run", run)
            """,
    ),
    # Both back in the same place of a result that is right as a whole.
    "two ranks swapped": Sabotage(
        case=PERMUTE,
        code="""
            import jax
            right = door.JaxProgram.run
            def run(self, iterations):
                right(self, iterations)
                sharding, ranks = self.result.sharding, self.result.reshape(4, -1)
                swapped = ranks[jax.numpy.array([0, 2, 1, 3])].reshape(-1)
                self.result = jax.device_put(swapped, sharding)
            put(door.JaxProgram, "run", run)
            """,
    ),
    "not run": Sabotage(code=NOT_RUN),
    "not run out of place": Sabotage(code=NOT_RUN, case=PERMUTE),
    "half the devices": Sabotage(
        code="""
            import jax, numpy
            put(door.JaxBackend, "mesh", lambda self, case: jax.sharding.Mesh(
                numpy.array(jax.devices()[:2]), ("ranks",)))
            """,
    ),
    "all on one device": Sabotage(
        code="""
            import jax
            right = door.JaxProgram.run
            def run(self, iterations):
                right(self, iterations)
                self.result = jax.device_put(self.result, jax.devices()[1])
            put(door.JaxProgram, "run", run)
            """,
    ),
    "before the loop": Sabotage(
        code="""
            from busbw.worker.backends.jax import collective as forms
            right = forms.run_chain
            def chain(body, loop_counts, *buffers, iterations_per_turn, has_delay):
                for number in range(iterations_per_turn):
                    buffers = body(number, *buffers)
                return right(lambda number, *buffers: buffers, loop_counts, *buffers)
            put(forms, "run_chain", chain)
            """,
    ),
    "in a branch": Sabotage(
        code="""
            import jax
            from busbw.worker.backends.jax import collective as forms
            right = forms.lowerings.all_reduce
            put(forms.lowerings, "all_reduce", lambda case, axes, values: jax.lax.cond(
                values[0] < 0, lambda v: v + v, lambda v: right(case, axes, v), values))
            """,
    ),
    "one buffer on the CPU": Sabotage(
        code="""
            right = program.choose_uncompiled_program
            put(program, "choose_uncompiled_program", lambda case, axes, rounds, **options: right(
                case, axes, rounds, **{**options, "is_virtual": False}))
            """,
    ),
    "nothing again": NOTHING,
}


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("jax", SABOTAGES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["nothing", "no round apart", "nothing again"])
def test_jax_with_an_unchanged_back_end_gives_a_time(results: Results, name: str) -> None:
    assert isinstance(results[name], Run), results[name]


# What is said of each.
REFUSED = {
    FailureKind.NOT_A_COLLECTIVE: {
        "without the collective": "XLA compiled none, 0 of them there",
        "half the ranks": "in groups {0,1,2,3}, XLA compiled %",
        "the other axis": "in groups {0,1},{2,3}, XLA compiled %",
        "all axes": "in groups {0,1},{2,3}, XLA compiled %",
        "to the rank before": "source_target_pairs={{0,3},{1,0},{2,1},{3,2}}",
        # XLA finds that two rounds are the same work, and does it once.
        "one round apart": "XLA compiled {'all-reduce': 3}, 3 of them there",
        "one round apart in a maximum": "XLA compiled {'all-reduce': 3}, 3 of them there",
        "one of four left out": "XLA compiled {'all-reduce': 3}, 3 of them there",
        "before the loop": "XLA compiled {'all-reduce': 4}, 0 of them there, such as %psum",
        "in a branch": "XLA compiled {'all-reduce': 4}, 0 of them there, such as ",
        "one buffer on the CPU": "the payload is copied between collectives: %copy",
    },
    FailureKind.WRONG_RESULT: {
        # Its place is named.
        "maximum for sum": "rank 0, element 0: ",
        "too few turns": "iterations, expected ",
        "too few turns unseen": "rank 0, element 0: ",
        "stale": "rank 0, element ",
        "stale maximum": "rank 0, element ",
        "off by one bit": "rank 2, element 700: ",
        "not run": "rank 0, element 0: ",
        "not run out of place": "rank 0, element 0: ",
        "two ranks swapped": "rank 1, element 0: ",
    },
    FailureKind.WRONG_WORLD: {
        "half the devices": "2 devices take part, expected 4",
        "all on one device": "the result is on 1 devices, expected 4",
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in REFUSED.items() for name in names]
)
def test_jax_with_a_broken_back_end_gives_a_failure_of_the_expected_kind_and_no_time(
    results: Results, kind: FailureKind, name: str
) -> None:
    refused(results[name], kind, REFUSED[kind][name])


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("half the ranks", ((0, 1), (2, 3))),
        ("the other axis", ((0, 2), (1, 3))),
        ("all axes", ((0, 1, 2, 3),)),
    ],
)
def test_the_failure_of_jax_with_wrong_groups_shows_the_groups_that_xla_compiled(
    results: Results, name: str, groups: tuple[tuple[int, ...], ...]
) -> None:
    failure = results[name]
    assert isinstance(failure, Failure), failure
    # JAX 0.12 names them by the axes of a mesh, earlier ones list them.
    assert replica_groups_of(failure.message, 4) == groups
