"""Round after round of one case, every result compared on every rank; knows no framework.

The first result of an input is compared word for word, and then hashed; later ones need only have
the same hash. All processes of a group take the same rounds, and look at each other after a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.launch import LaunchId, Plan
from busbw.model.machine import EnvironmentKey
from busbw.model.soak import Soaked, Wrong
from busbw.model.words import Clock, Placement
from busbw.worker.backends.base import Program, unavailable, wrong_result
from busbw.worker.measure import MeasureSession
from busbw.worker.serve import value_of

# How long the rounds of one input take, and how many there are at most.
_BATCH_S, _MOST = 0.2, 2**14
# How often an input whose result was wrong is asked for again, at least, and for about how long.
AGAIN, _LEAST_AGAIN, _AGAIN_S = 100, 10, 20.0


def soak(session: MeasureSession, request: Mapping[str, Any]) -> Soaked:
    """Run rounds of a case, one collective a call out of place: its input stays as it was.

    The ranks are moved on by as many devices as the request says. Raises MeasuringError.
    """
    case, key = value_of(request, "case", Case), value_of(request, "key", EnvironmentKey)
    backend, turned = session.backend, value_of(request, "turned", int)
    if turned and not backend.turns:
        raise unavailable("its ranks cannot be moved")
    backend.turned = turned
    protocol = replace(case.protocol, clock=Clock.DISPATCH)
    case = replace(case, placement=Placement.OUT_OF_PLACE.value, protocol=protocol)
    ranks, collective = case.ranks // key.processes, COLLECTIVES[case.collective]
    need = backend.memory_need(case)
    if need is not None:
        # Two inputs take turns.
        more = ranks * collective.input_bytes(case.payload_bytes, case.group_size)
        need = replace(need, needed_bytes=need.needed_bytes + more)
        limit_bytes = value_of(request, "plan", Plan).memory_limit_bytes
        session.host_memory.check_fits(need, limit_bytes, key)
    backend.world().check(case, key)
    each_bytes = collective.output_bytes(case.payload_bytes, case.group_size)
    with backend.prepare(case, soaking=True) as program:
        rounds = Soak(program, ranks * each_bytes, backend.now_s, backend.all_gather)
        return rounds.run(value_of(request, "seconds", float), session.launch)


@dataclass
class Soak:
    """Rounds of `program`, whose results on this process's ranks are `bytes_each` bytes."""

    program: Program
    bytes_each: int
    now_s: Callable[[], float]
    gathered: Callable[[Sequence[float]], Sequence[Sequence[float]]]
    rounds: int = 0
    _known: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _left_out: set[str] = field(default_factory=set)
    _wrong_draw: int = -1

    def run(self, seconds: float, launch: LaunchId) -> Soaked:
        """For so long, or until a process finds a wrong word."""
        begun_s, batch, taken_s = self.now_s(), 1, 0.0
        wrong = None
        self._try_special()
        self._lay_out()
        while wrong is None:
            wrong, taken_s = self._batch(batch)
            so_far_s = self._most(self.now_s() - begun_s)
            if so_far_s >= seconds or self._most(float(wrong is not None)):
                break
            if taken_s < _BATCH_S / 2:
                batch = min(2 * batch, _MOST)
        asked = AGAIN if taken_s == 0 else int(_AGAIN_S * batch / taken_s / 2)
        asked = max(_LEAST_AGAIN, min(AGAIN, asked))
        again = self._again(asked) if self._most(float(wrong is not None)) else 0
        return Soaked(
            launch=launch,
            rounds=self.rounds,
            compared_bytes=self.rounds * self.bytes_each,
            seconds=self.now_s() - begun_s,
            left_out=tuple(sorted(self._left_out)),
            wrong=wrong and replace(wrong, again=again, asked=asked),
        )

    def _try_special(self) -> None:
        """Leave out values that come back changed from a first round: nobody promised them."""
        tried: set[str] = set()
        while not {*self.program.special} <= tried:
            self._lay_out()
            kind = self.program.kind
            if kind in self.program.special and kind not in tried:
                tried.add(kind)
                self.program.run(1)
                if self._most(float(self.program.wrong(1) is not None)):
                    self._left_out.add(kind)

    def _lay_out(self) -> None:
        self.program.initialize()
        while self.program.kind in self._left_out:
            self.program.initialize()

    def _batch(self, count: int) -> tuple[Wrong | None, float]:
        """The first wrong word of `count` rounds, and how long they took.

        Another input and the one of the batch before take turns.
        """
        self.program.swap()
        self._lay_out()
        begun_s, found = self.now_s(), None
        for _ in range(count):
            self.program.run(1)
            self.rounds += 1
            # The others take the whole batch, too.
            if found is None:
                found = self._compared()
                self._wrong_draw = self.program.draw if found else -1
            self.program.swap()
        return found, self._most(self.now_s() - begun_s)

    def _compared(self) -> Wrong | None:
        """Of the last round; a result that is right has a hash that is known from then on."""
        digests, draw = self.program.digests(), self.program.draw
        if self._known.get(draw) == digests:
            return None
        wrong = self.program.wrong(self.rounds)
        if wrong is None and draw in self._known:
            raise wrong_result(
                f"round {self.rounds}, {self.program.kind}: every word is right, and yet the "
                f"hashes of ranks are {digests} after {self._known[draw]}"
            )
        if wrong is None:
            self._known[draw] = digests
        return wrong

    def _again(self, count: int) -> int:
        """In how many of `count` rounds of its input, by turns with another, it is wrong again."""
        if self.program.draw != int(self._most(self._wrong_draw)):
            self.program.swap()
        wrong = 0
        for _ in range(count):
            self.program.run(1)
            wrong += self._compared() is not None
            self.program.swap()
            self.program.run(1)
            self.program.swap()
        return wrong

    def _most(self, value: float) -> float:
        return max(row[0] for row in self.gathered([value]))
