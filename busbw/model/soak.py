"""A soak: what one process compared in a time, the wrong word that ended it, and all of a case."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .launch import NO_LAUNCH, Failure, LaunchId
from .limits import AtLeast1, Natural, NotNegative


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """A word of a result that is not what it must be, and how often it came again.

    `element` of `rank` in round `number`, from `values` such as ``finite words``. Words are those
    of the dtype, without a sign. The result of the same input was wrong, in whatever word, in
    `again` of `asked` more rounds, there of any rank of the process. `elements` are wrong in all,
    `last` the last of them.
    """

    rank: Natural
    element: Natural
    number: AtLeast1
    values: str
    expected: Natural
    found: Natural
    elements: AtLeast1 = 1
    last: Natural = 0
    again: Natural = 0
    asked: Natural = 0

    @property
    def bits(self) -> tuple[int, ...]:
        """Which differ, the least significant is 0."""
        changed = self.expected ^ self.found
        return tuple(bit for bit in range(changed.bit_length()) if changed >> bit & 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Soaked:
    """What a process compared of its ranks' results: rounds, bytes and seconds.

    `left_out` are values that this back end does not pass unchanged. `wrong` ended it.
    """

    launch: LaunchId
    rounds: Natural
    compared_bytes: Natural
    seconds: NotNegative
    left_out: tuple[str, ...] = ()
    wrong: Wrong | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What a soak has found of one case so far, in all launches and processes.

    `launch` and `process` are those of the `wrong` word, and `follows` is what it stays with if all
    ranks are moved on by one device: the ``device``, the ``rank``, or neither; "" where it did not
    come again. `failure` is why it ended otherwise.
    """

    rounds: Natural = 0
    compared_bytes: Natural = 0
    seconds: NotNegative = 0.0
    left_out: tuple[str, ...] = ()
    wrong: Wrong | None = None
    launch: LaunchId = NO_LAUNCH
    process: Natural = 0
    follows: str = ""
    failure: Failure | None = None

    @property
    def is_over(self) -> bool:
        return self.wrong is not None or self.failure is not None

    def plus(self, answer: Soaked | Failure, process: int = 0) -> Tally:
        """With what a process answers; those of a group take the same rounds."""
        if isinstance(answer, Failure):
            return self if self.failure else replace(self, failure=answer)
        first = process == 0
        found = replace(
            self,
            rounds=self.rounds + (answer.rounds if first else 0),
            compared_bytes=self.compared_bytes + answer.compared_bytes,
            seconds=self.seconds + (answer.seconds if first else 0.0),
            left_out=tuple(dict.fromkeys((*self.left_out, *answer.left_out))),
        )
        if answer.wrong is None or self.wrong is not None:
            return found
        wrong = replace(answer.wrong, number=found.rounds - answer.rounds + answer.wrong.number)
        return replace(found, wrong=wrong, launch=answer.launch, process=process)
