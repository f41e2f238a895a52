"""What a night on a quiet device sees, and how often it is red for nothing: simulated, counted.

Each line of the table is one question; sessions are drawn and judged by `quiet`. Anyone can repeat
it: `python -m evidence nights`.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from busbw.model import Case, SessionOutcome

from .intervals import clopper_pearson
from .night import Night
from .quiet import BEGIN, CASES, Loss, Noise, QuietDevice
from .trials import Trials
from .words import percent, row

QUIET = Noise(launch=0.005, session=0.005)
MOODY = Noise(launch=0.01, session=0.01)
ODD = 0.02

# By trial, the loss: each size in turn is the slow one.
_Loss = Callable[[int], Loss]
_Seen = Callable[[list[Night], int], bool]


def _slow(trial: int) -> Case:
    return CASES[trial % len(CASES)]


def _one(loss: float) -> _Loss:
    return lambda trial: (
        lambda night, case: math.log1p(loss) if case == _slow(trial) and night >= 0 else 0.0
    )


def _all(loss: float) -> _Loss:
    return lambda trial: lambda night, case: math.log1p(loss) if night >= 0 else 0.0


def _one_more(loss: float) -> _Loss:
    return lambda trial: (
        lambda night, case: (night + 1) * math.log1p(loss) if case == _slow(trial) else 0.0
    )


def _all_more(loss: float) -> _Loss:
    return lambda trial: lambda night, case: (night + 1) * math.log1p(loss)


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """A loss after so many `nights`: in how many trials of all it is `seen` within `within` nights.

    `wanted` is the share that is wanted.
    """

    noise: Noise
    nights: int
    text: str
    loss: _Loss
    seen: _Seen
    within: int
    wanted: str

    def is_seen(self, trial: int, seed: int) -> bool:
        """Whether it is, in one trial."""
        device = QuietDevice(self.noise, f"{seed} {self.text} {self.noise.text} {trial}")
        device.quiet_nights(self.nights)
        loss, nights = self.loss(trial), []
        for _ in range(self.within):
            nights.append(device.night(loss, since=self.nights))
            if self.seen(nights, trial):
                return True
        return False


def _flagged(nights: list[Night], trial: int) -> bool:
    """The slow case has regressed."""
    return _slow(trial) in nights[-1].regressed


def _slower(nights: list[Night], trial: int) -> bool:
    """The session is not fine."""
    return nights[-1].verdict.failed


def _named(before: int) -> _Seen:
    """The slow case has drifted, since the night before, of or after its loss."""
    lost = BEGIN + timedelta(days=1 + before)
    near = timedelta(days=1)
    return lambda nights, trial: any(
        drift.case == _slow(trial) and abs(drift.began - lost) <= near
        for drift in nights[-1].drifted
    )


def _drifted(nights: list[Night], trial: int) -> bool:
    """The session is DRIFT, and names the slow case."""
    return nights[-1].verdict.outcome is SessionOutcome.DRIFT and any(
        drift.case == _slow(trial) for drift in nights[-1].drifted
    )


def _all_drifted(nights: list[Night], trial: int) -> bool:
    """The session is DRIFT, in what all cases share."""
    return nights[-1].verdict.outcome is SessionOutcome.DRIFT and any(
        drift.case is None for drift in nights[-1].drifted
    )


def _detection(
    noise: Noise, nights: int, text: str, wanted: str, *, seen: _Seen, loss: _Loss, within: int = 1
) -> Detection:
    return Detection(
        noise=noise, nights=nights, text=text, loss=loss, seen=seen, within=within, wanted=wanted
    )


def detections() -> list[Detection]:
    """What a night should see."""
    return [
        _detection(QUIET, 3, "+5 % in one case", ">= 80 %", seen=_flagged, loss=_one(0.05)),
        _detection(QUIET, 5, "+5 % in one case", ">= 95 %", seen=_flagged, loss=_one(0.05)),
        _detection(QUIET, 5, "+3 % in all cases", ">= 95 %", seen=_slower, loss=_all(0.03)),
        _detection(MOODY, 5, "+8 % in one case", ">= 80 %", seen=_flagged, loss=_one(0.08)),
        _detection(
            QUIET,
            7,
            "+3 % in one case: seen within 5 nights, its night named",
            ">= 90 %",
            seen=_named(7),
            loss=_one(0.03),
            within=5,
        ),
        _detection(
            QUIET,
            7,
            "+0.3 % a night in one case: DRIFT within 20",
            ">= 95 %",
            seen=_drifted,
            loss=_one_more(0.003),
            within=20,
        ),
        _detection(
            QUIET,
            7,
            "+0.3 % a night in all cases: DRIFT within 20",
            ">= 95 %",
            seen=_all_drifted,
            loss=_all_more(0.003),
            within=20,
        ),
    ]


def detection_rows(trials: Trials, seed: int) -> Iterator[str]:
    """The table of what is seen."""
    yield row("launches / sessions differ by", "nights", "loss", "seen (95 %)", "wanted")
    yield row(*["---"] * 5)
    for number, one in enumerate(detections()):
        found = sum(trials.run(functools.partial(_is_seen, number, seed)))
        yield row(
            one.noise.text, str(one.nights), one.text, _share(found, trials.count), one.wanted
        )


def _is_seen(number: int, seed: int, trial: int) -> bool:
    return detections()[number].is_seen(trial, seed)


def unchanged_rows(trials: Trials, seed: int) -> Iterator[str]:
    """The table of sessions of unchanged code that are red for any reason."""
    yield row(
        "launches / sessions differ by", "odd", "nights", "red for any reason (95 %)", "wanted"
    )
    yield row(*["---"] * 5)
    for odd, wanted in ((0.0, "<= 1 %"), (ODD, "<= 5 %")):
        for noise in (QUIET, MOODY):
            for nights in (3, 5, 10, 30, 100):
                one = functools.partial(_is_red_after, nights, replace(noise, odd=odd), seed)
                share = _share(sum(trials.run(one)), trials.count)
                yield row(noise.text, percent(odd) if odd else "none", str(nights), share, wanted)


def _is_red_after(nights: int, noise: Noise, seed: int, trial: int) -> bool:
    """Whether the session after `nights` quiet ones is."""
    device = QuietDevice(noise, f"{seed} unchanged {noise.text} {noise.odd} {nights} {trial}")
    device.quiet_nights(nights)
    return device.night().is_red


def year_rows(trials: Trials, seed: int, nights: int = 365) -> Iterator[str]:
    """The table of years of unchanged code: the share of nights that are red."""
    yield row("launches / sessions differ by", "histories", "red nights: median", "worst", "wanted")
    yield row(*["---"] * 5)
    for noise in (QUIET, MOODY):
        shares = []
        for share in trials.run(functools.partial(_red_nights, nights, noise, seed)):
            shares.append(share)
            print(f"{noise.text}, history {len(shares)}: {percent(share)}", file=sys.stderr)
        yield row(
            noise.text,
            str(trials.count),
            percent(statistics.median(shares)),
            percent(max(shares)),
            "<= 1 %, <= 5 %",
        )


def _red_nights(nights: int, noise: Noise, seed: int, trial: int) -> float:
    """The share of nights that are red, each judged after all before it."""
    device = QuietDevice(noise, f"{seed} year {noise.text} {trial}")
    return sum(device.night().is_red for _ in range(nights)) / nights


def machine_rows(trials: Trials, seed: int) -> Iterator[str]:
    """The table of nights on which the reference says that the machine is slower."""
    yield row("launches / sessions differ by", "nights", "the machine", "MACHINE_SHIFT (95 %)")
    yield row(*["---"] * 4)
    for noise in (QUIET, MOODY):
        for number, (nights, text, _, _) in enumerate(_MACHINES):
            one = functools.partial(_has_shifted, number, noise, seed)
            share = _share(sum(trials.run(one)), trials.count)
            yield row(noise.text, str(nights), text, share)


# Earlier nights, what the machine does, that as a loss, within how many nights it is looked for.
_MACHINES: tuple[tuple[int, str, _Loss, int], ...] = (
    *((nights, "unchanged", _all(0.0), 1) for nights in (1, 3, 10, 30, 100)),
    (3, "+3 % in all cases", _all(0.03), 1),
    (7, "+5 % in one case: within 5 nights", _one(0.05), 5),
    (7, "+0.3 % a night in all cases: within 20", _all_more(0.003), 20),
)


def _has_shifted(number: int, noise: Noise, seed: int, trial: int) -> bool:
    """Whether it does, in one trial."""
    nights, text, loss, within = _MACHINES[number]
    device = QuietDevice(noise, f"{seed} machine {text} {noise.text} {nights} {trial}")
    device.quiet_nights(nights)
    lost = loss(trial)
    return any(device.machine(lost, since=nights).is_slower for _ in range(within))


def _share(found: int, among: int) -> str:
    interval = clopper_pearson(found, among)
    return f"{percent(found / among)} ({percent(interval.lower)} to {percent(interval.upper)})"


TABLES = {
    "detected": detection_rows,
    "unchanged": unchanged_rows,
    "years": year_rows,
    "machine": machine_rows,
}
