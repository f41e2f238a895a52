"""TensorFlow's back end, broken in every way that would give a number for something else.

All in one process: what a sabotage replaced is put back before the next one.
"""

from __future__ import annotations

import pytest

from busbw.model.launch import Injection, Run
from busbw.model.words import FailureKind
from tests.helpers import frameworks as real
from tests.helpers.frameworks import Results, Sabotage, refused

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

NOTHING = Sabotage(code="")


ONE_TOO_FEW = """
right = program.TensorflowProgram.run
put(program.TensorflowProgram, "run", lambda self, iterations: right(self, max(0, iterations - 1)))
"""


SABOTAGES = {
    "nothing": NOTHING,
    # Whether they are there can be asked all the same.
    "by itself": Sabotage(
        code="""
            import importlib.util, sys
            assert not {"jax", "sklearn"} & set(sys.modules)
            importlib.util.find_spec("jax"), importlib.util.find_spec("sklearn")
            """,
    ),
    "without the collective": Sabotage(
        code="""
            put(program, "_all_reduce", lambda values: values + values)
            """,
    ),
    "one too few": Sabotage(code=ONE_TOO_FEW),
    "one too few out of place": Sabotage(code=ONE_TOO_FEW, case={"placement": "out_of_place"}),
    "one too few unseen": Sabotage(
        code="""
            right = program.TensorflowProgram.run
            def run(self, iterations):
                right(self, max(0, iterations - 1))
                self._turns_run = iterations
            put(program.TensorflowProgram, "run", run)
            """,
    ),
    # Every round reads the values that the first one read.
    "not chained": Sabotage(
        code="""
            from dataclasses import replace
            right = program._all_reduce_in_loop
            put(program, "_all_reduce_in_loop", lambda case, *given: right(
                replace(case, placement="out_of_place"), *given))
            """,
    ),
    "stale": Sabotage(
        code="""
            right = program.TensorflowProgram.run
            last = {}
            def run(self, iterations):
                right(self, iterations)
                now = self.result
                self.result = last.get(iterations, now)
                last[iterations] = now
            put(program.TensorflowProgram, "run", run)
            """,
    ),
    "off by one bit": Sabotage(
        code="""
            import tensorflow as tf
            right = program.TensorflowProgram.check_result
            def check(self, iterations):
                found = self._local_tensors(self.result)
                with tf.device(found[2].backing_device):
                    wrong = found[2].numpy().copy()
                    wrong[700] *= 1 + 2**-23
                    found[2] = tf.constant(wrong)
                self._local_tensors = lambda values: found
                try:
                    return right(self, iterations)
                finally:
                    del self._local_tensors
            put(program.TensorflowProgram, "check_result", check)
            """,
    ),
    "half the devices": Sabotage(
        code="""
            right = door.make_strategy
            put(backend, "_strategies", {})
            put(door, "make_strategy", lambda name, devices: right(name, devices[:2]))
            """,
    ),
    "before the loop": Sabotage(
        code="""
            import tensorflow as tf
            def loop(case, strategy, values, turns):
                summed = strategy.run(program._all_reduce, args=(values,))
                return tf.while_loop(
                    lambda turn, _: turn < turns,
                    lambda turn, held: (turn + 1, held),
                    (tf.constant(0), summed),
                )
            put(program, "_all_reduce_in_loop", loop)
            """,
    ),
    "another algorithm": Sabotage(
        code="""
            right = door.make_strategy
            put(backend, "_strategies", {})
            put(door, "make_strategy", lambda name, devices: right(
                "reduction_to_one_device", devices))
            """,
    ),
    "twice": Sabotage(
        code="""
            right = program._all_reduce
            put(program, "_all_reduce", lambda values: right(right(values)))
            """,
    ),
    "nothing again": NOTHING,
    # The ring's own launcher, of which each replica has one, told of a smaller group.
    "half the ranks": Sabotage(
        code="""
            from tensorflow.python.distribute import cross_device_utils
            launcher = cross_device_utils.CollectiveReplicaLauncher
            right = launcher.all_reduce
            def all_reduce(self, *arguments, **options):
                number = int(self._device.rsplit(":", 1)[-1])
                kept = self._group_size, self._group_key
                self._group_size, self._group_key = 2, 1000 + number // 2
                try:
                    return right(self, *arguments, **options)
                finally:
                    self._group_size, self._group_key = kept
            put(launcher, "all_reduce", all_reduce)
            """,
    ),
    "delay": Sabotage(code="", injection=Injection(share=0.1)),
}


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("tensorflow", SABOTAGES)


# "by itself" also says that what TensorFlow has no need of is not imported beside it.
@pytest.mark.parametrize("name", ["nothing", "by itself", "nothing again"])
def test_tensorflow_with_an_unchanged_back_end_gives_a_time(results: Results, name: str) -> None:
    assert isinstance(results[name], Run), results[name]


# What is said of each.
REFUSED = {
    FailureKind.NOT_A_COLLECTIVE: {
        "without the collective": "ring is 4 x CollectiveReduceV2, for float32 TensorFlow put no ",
        "half the ranks": "is over 2 ranks, expected 4",
        "before the loop": "TensorFlow took the reduction out of the loop: ",
        "another algorithm": "ring is 4 x CollectiveReduceV2, for float32 TensorFlow put {'AddN'",
        "twice": "TensorFlow put {'CollectiveReduceV2': 8}",
    },
    FailureKind.WRONG_RESULT: {
        # Its place is named.
        "one too few": "the program ran 0 iterations, expected 1",
        "one too few out of place": "the program ran 0 iterations, expected 1",
        "one too few unseen": "rank 0, element 0: ",
        "not chained": "rank 0, element 0: ",
        "stale": "rank 0, element ",
        "off by one bit": "rank 2, element 700: ",
    },
    FailureKind.WRONG_WORLD: {
        "half the devices": "2 replicas take part, expected 4",
    },
    FailureKind.UNAVAILABLE: {
        "delay": "TensorFlow's program cannot do a delay",
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in REFUSED.items() for name in names]
)
def test_tensorflow_with_a_broken_back_end_gives_a_failure_of_the_expected_kind_and_no_time(
    results: Results, kind: FailureKind, name: str
) -> None:
    refused(results[name], kind, REFUSED[kind][name])
