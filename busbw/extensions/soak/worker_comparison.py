"""Soak a case in a worker: run iterations, and compare every result on every rank.

The inputs are random numbers, whose sum has the same bits in every order of summation. So
floating-point inputs are integers times a power of two. These integers are small enough that the
sum over all ranks is exact. Inputs of an integer dtype use all bits.

The first result of a draw of inputs is compared element by element, and its hash is kept. Later
results of the draw need only have the same hash. Iterations run in batches. All processes of a
group run the same batches, and tell each other after a batch whether a result was wrong. This
module imports no framework.
"""

from __future__ import annotations

import math
import pkgutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from busbw.collectives import COLLECTIVES
from busbw.collectives.base import DTYPES
from busbw.model.case import Case
from busbw.model.field_types import Natural, NotNegative
from busbw.model.launch import MeasurementPlan
from busbw.model.machine import EnvironmentKey
from busbw.model.words import Clock, Placement
from busbw.worker.backends.base import check_devices, unavailable, wrong_result
from busbw.worker.backends.values import (
    Array,
    CaseValues,
    chunks_with_exact_values,
    map_ranks,
)
from busbw.worker.host import host_name
from busbw.worker.measure import MeasuringWorker
from busbw.worker.serve import request_value

# The elements after which an input repeats. The number is prime, so that no two neighboring chunks
# whose length is a power of two are equal.
_PERIOD_LENGTH = 4093
# The number of powers of two that draws use, from the smallest to the largest normal numbers.
_SCALE_COUNT = 4
# Each block of all ranks is reduced by such a function of numpy. Sums of integers wrap, as they do
# on devices.
_REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}

# The duration that a batch of iterations should have.
_BATCH_S = 0.2
# How often the two inputs of a batch are tried again after a wrong result.
RETRY_COUNT = 10

# The SoakPrograms of frameworks; other frameworks need none of their own.
_PROGRAM_TYPES = {"fake": "worker_comparison:FakeSoakProgram", "jax": "worker_jax:JaxSoakProgram"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """How much a soak compared, in a case or in several cases together.

    Attributes:
        iterations: The number of iterations whose results were compared.
        compared_bytes: The number of compared bytes on all ranks together.
        soaked_s: The time in seconds that the iterations and comparisons took.

    """

    iterations: Natural = 0
    compared_bytes: Natural = 0
    soaked_s: NotNegative = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            iterations=self.iterations + other.iterations,
            compared_bytes=self.compared_bytes + other.compared_bytes,
            soaked_s=self.soaked_s + other.soaked_s,
        )


class SoakValues(CaseValues):
    """The random inputs of a case in a soak, and the exact results of an iteration.

    A draw is a set of random inputs for all ranks. The draws are numbered from 0 to 15.
    """

    draw_count = 16
    # No extension has inputs for the first call, because a soak compares the results of all calls.
    first_call_readers = MappingProxyType({})

    def max_exact_iterations(self) -> int:
        """Return 1, because a call of the program runs a single iteration in a soak.

        Raises MeasuringError UNAVAILABLE if the case has so many ranks that even sums of
        integers with a single bit are not exact in its dtype.
        """
        if self._max_summand_bits < 1:
            raise unavailable(
                f"{self.case.dtype} holds no exact sum over {self.case.group_size} ranks"
            )
        return 1

    def starting_values(self, rank: int, draw_number: int) -> Array:
        """Return the inputs of `rank` in the draw `draw_number`, an array (blocks, period).

        The array has a row for each block of the buffer: the values that the block repeats. The
        values are random integers times a power of two. In floating-point dtypes the power of two
        differs between successive draws.
        """
        group, position = self.group_and_position(rank)
        generator = np.random.default_rng((draw_number, group, position))
        shape = self.collective.input_block_count(self.case.group_size), _PERIOD_LENGTH
        largest = 2**self._max_summand_bits - 1
        integers = generator.integers(-largest, largest, shape, endpoint=True)
        dtype = DTYPES[self.case.dtype]
        span = max(0, dtype.greatest_exponent - dtype.significant_bits - dtype.least_exponent)
        exponent = dtype.least_exponent + span * (draw_number % _SCALE_COUNT) // (_SCALE_COUNT - 1)
        return np.asarray(np.ldexp(integers, exponent).astype(self.dtype))

    def exact_values_after(self, rank: int, draw_number: int, iterations: int) -> Array:
        """Return the exact result of `rank` for the inputs of a draw, an array (blocks, period).

        The array has a row for each block of the result: the values that the block repeats.
        `draw_number` is the number of the draw. `iterations` is not used: every iteration of a soak
        begins with the inputs, so its result does not depend on the number of iterations.
        """
        group, position = self.group_and_position(rank)
        inputs: list[Any] = [
            [*self.starting_values(other, draw_number)] for other in self.case.rank_groups[group]
        ]
        return np.stack(self.collective.output_blocks(inputs, position, self._reduce_exactly))

    def _reduce_exactly(self, blocks: Sequence[Any]) -> Any:
        """Return the exact sum, maximum or minimum of `blocks`, a block of each rank."""
        return _REDUCTIONS[self.case.reduce_op].reduce(blocks, dtype=self.dtype)

    @property
    def _max_summand_bits(self) -> int:
        """The largest number of bits of an input for which the sum over all ranks is exact.

        For integer dtypes this is the number of bits of the dtype, because the sums may wrap. The
        number is also the number of bits for maxima and minima.
        """
        dtype = DTYPES[self.case.dtype]
        if self.case.reduce_op != "sum" or dtype.least_exponent == 0:
            return dtype.significant_bits
        return dtype.significant_bits - math.ceil(math.log2(self.case.group_size))


@dataclass
class SoakProgram:
    """The compiled program of a case in a soak, with the comparison of its results.

    The inputs of two draws alternate between iterations. So an old result that an iteration did not
    overwrite is noticed.

    Attributes:
        backend: The back end that compiled the program.
        case: The case.
        program: The program in the framework, which runs a single iteration in a call.
        iterations: The number of iterations so far.
        prepare_arguments: The arguments after `case` with which the method `prepare_program` of the
            back end is called.

    """

    backend: Any
    case: Case
    program: Any
    iterations: int = 0
    # The two inputs, the newer first: the number of the draw, and the buffers.
    _inputs: Sequence[tuple[int, Any]] = ((-1, None),) * 2
    # The hashes of the right result on each rank, by the number of the draw.
    _right_hashes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    # No injection, and the class of the inputs and exact results.
    prepare_arguments: ClassVar[tuple[Any, ...]] = (None, SoakValues)

    def renew_input(self) -> None:
        """Write the inputs of the next draw into the buffers of the older of the two draws."""
        newer_input, (_, old_buffers) = self._inputs
        draw_number = (newer_input[0] + 1) % SoakValues.draw_count
        self.program.inputs = old_buffers
        self.program.write_draw(draw_number)
        self._inputs = (draw_number, self.program.inputs), newer_input

    def hash_results(self) -> tuple[int, ...]:
        """Return a hash (the CRC-32) of the last result of each rank of this process."""
        # Many processors have an instruction for CRC-32.
        results = self.program.results_by_rank()
        return tuple(
            map_ranks(
                lambda rank: zlib.crc32(np.ascontiguousarray(results[rank]).view(np.uint8).data),
                results,
                self.case.payload_bytes,
            )
        )

    def first_wrong_element_text(self, draw_number: int) -> str:
        """Return a text about the first wrong element of the last result.

        The text is empty if all elements are right. `draw_number` is the number of the draw with
        whose inputs the last iteration ran.
        """
        word_dtype = np.dtype(f"u{DTYPES[self.case.dtype].size_bytes}")
        for rank, result in self.program.results_by_rank().items():
            blocks = self.program.values.exact_values_after(rank, draw_number, 1)
            for begin, part, exact in chunks_with_exact_values(blocks, result):
                expected = exact.view(word_dtype)
                actual = np.ascontiguousarray(part).view(word_dtype)
                for index in np.flatnonzero(expected != actual)[:1].tolist():
                    return wrong_element_text(
                        rank, begin + index, int(expected[index]), int(actual[index])
                    )
        return ""

    def last_result_problem(self, draw_number: int) -> str:
        """Return what is wrong with the last result, or an empty text if nothing is wrong.

        `draw_number` is the number of the draw with whose inputs the last iteration ran. The hashes
        of the first right result of a draw are kept. A later result with the same hashes is right.
        A later result with other hashes is wrong, even if all its elements are right on reading.
        """
        hashes = self.hash_results()
        if self._right_hashes.get(draw_number) == hashes:
            return ""
        mismatch = self.first_wrong_element_text(draw_number)
        if not mismatch and self._right_hashes.setdefault(draw_number, hashes) != hashes:
            return "every word is right, and yet the hashes of ranks changed"
        return mismatch

    def run_and_compare(self, seconds: float) -> Tally:
        """Run and compare iterations for `seconds`, or until a process finds a wrong result.

        After a wrong result, all processes run the two present draws RETRY_COUNT times again. All
        processes return the same Tally. Raises MeasuringError WRONG_RESULT if this process found a
        wrong result.
        """
        begun_s = self.backend.now_s()
        batch = 1
        soaked_s = 0.0
        self.renew_input()
        while soaked_s < seconds:
            self.renew_input()
            mismatch = self._run_batch(batch)
            values = [float(mismatch != ""), self.backend.now_s() - begun_s]
            is_wrong, soaked_s = map(max, zip(*self.backend.all_gather(values)))
            if is_wrong:
                repeats = sum(self._run_batch(2) != "" for _ in range(RETRY_COUNT))
                if mismatch:
                    again = (
                        f"the same inputs gave a wrong result in {repeats} of {RETRY_COUNT} retries"
                    )
                    raise wrong_result(f"{mismatch}; {again}")
                break
            batch = max(1, int(_BATCH_S * self.iterations / soaked_s))
        collective = COLLECTIVES[self.case.collective]
        result_bytes = collective.output_bytes(self.case.payload_bytes, self.case.group_size)
        return Tally(
            iterations=self.iterations,
            compared_bytes=self.iterations * self.case.ranks * result_bytes,
            soaked_s=soaked_s,
        )

    def _run_batch(self, count: int) -> str:
        """Run and compare `count` iterations, and return a text about the first wrong result.

        The text is empty if no result is wrong. The iterations alternate between the two present
        draws, and begin with the newer draw.
        """
        first_mismatch = ""
        for index in range(count):
            draw_number, buffers = self._inputs[index % 2]
            self.program.inputs = buffers
            self.program.run(1)
            self.iterations += 1
            mismatch = self.last_result_problem(draw_number)
            # The batch goes on after a wrong element, because other processes run all of it.
            if mismatch and not first_mismatch:
                first_mismatch = f"iteration {self.iterations}: {mismatch}"
        return first_mismatch


class FakeSoakProgram(SoakProgram):
    """A simulated program in a soak, whose results are wrong if the script says so.

    The script is what the framework ``fake`` is told to simulate. If a case of the script has
    ``{"flips": 1000}``, every 1000th result of the case is wrong.
    """

    prepare_arguments = ()

    def renew_input(self) -> None:
        """Do nothing, because a simulated program has no inputs."""

    def last_result_problem(self, draw_number: int) -> str:
        flips = self.backend.scripted_changes(self.case).get("flips")
        if flips and self.iterations % flips == 0:
            return wrong_element_text(rank=1, element=7, expected=6, actual=7)
        return ""


def wrong_element_text(rank: int, element: int, expected: int, actual: int) -> str:
    """Return a text about a wrong element of a result, with the numbers of its wrong bits.

    Args:
        rank: The rank whose result is wrong.
        element: The index of the wrong element in the result.
        expected: The bits of the expected element, as an integer.
        actual: The bits of the wrong element, as an integer. Bit 0 is the least significant bit.

    """
    changed = expected ^ actual
    bits = [str(bit) for bit in range(changed.bit_length()) if changed >> bit & 1]
    return (
        f"rank {rank} ({host_name()}), element {element}: {actual:#x}, expected {expected:#x} "
        f"(wrong bits: {', '.join(bits)})"
    )


def soak(worker: MeasuringWorker, request: Mapping[str, Any]) -> Tally:
    """Run a case for some seconds, compare each result, and return how much was compared.

    The case runs out of place, because the same inputs are used for many iterations.

    Args:
        worker: The worker that answers the request, whose back end compiles and runs the case.
        request: The request. The value `case` is the case, `key` the environment key, `plan` the
            plan with the limit of memory, and `seconds` the duration.

    Raises:
        MeasuringError: A result on this process is wrong. Or the devices are not those of `key`, or
            the case does not fit into memory or cannot be compiled. Or the dtype has too few bits
            to hold a sum over all ranks exactly.

    """
    case = request_value(request, "case", Case)
    key = request_value(request, "key", EnvironmentKey)
    backend = worker.backend
    protocol = replace(case.protocol, clock=Clock.DISPATCH)
    case = replace(case, placement=Placement.OUT_OF_PLACE.value, protocol=protocol)
    need = backend.memory_need(case)
    if need is not None:
        # The need is for a single input, and a soak has two inputs.
        input_bytes = COLLECTIVES[case.collective].input_bytes(case.payload_bytes, case.group_size)
        needed_bytes = need.needed_bytes + case.ranks // key.processes * input_bytes
        limit_bytes = request_value(request, "plan", MeasurementPlan).memory_limit_bytes
        worker.host_memory.check_fits(replace(need, needed_bytes=needed_bytes), limit_bytes, key)
    check_devices(backend.current_environment_key(), case, key)
    path = _PROGRAM_TYPES.get(backend.name, "worker_comparison:SoakProgram")
    program_type: type[SoakProgram] = pkgutil.resolve_name(f"{__package__}.{path}")
    with backend.prepare_program(case, *program_type.prepare_arguments) as program:
        seconds = request_value(request, "seconds", float)
        return program_type(backend, case, program).run_and_compare(seconds)
