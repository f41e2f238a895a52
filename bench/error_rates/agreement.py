"""Compare the batched rule with the product: both judge the same sessions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from busbw.judge.lasting_losses import accepted_deviation
from busbw.judge.levels import history_of
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes, History
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.words import KIB, Device
from busbw.workloads.collective import Collective

from .arrays import Array
from .batched import Judge, Outcomes
from .devices import Devices, Noise
from .session import Judged, Times, append, judge

POLICY = POLICIES[Device.TPU]
_FRAMEWORKS = ("jax", "tensorflow")
_DTYPES = ("float32", "bfloat16", "float16", "int32", "int8")

# By name: the noise, and the loss from session 5 on, as a share, and its kind in `_loss`.
KINDS: Mapping[str, tuple[Noise, float, str]] = {
    "quiet": (Noise(), 0.0, ""),
    "one slower": (Noise(session=0.01, launch=0.01), 0.05, "one"),
    "all slower": (Noise(), 0.03, "all"),
    "every third": (Noise(), 0.06, "third"),
    "repaired": (Noise(), 0.05, "repaired"),
    "ten faster": (Noise(), -0.06, "ten"),
    "creep": (Noise(), 0.02, "creep"),
    "noisy": (Noise(), 0.0, "noisy"),
    "odd accepted": (Noise(), 0.05, "accepted"),
    "t of 3": (Noise(freedom=3), 0.0, ""),
    "two modes": (Noise(slow_mode=1.25), 0.0, ""),
    "by case": (Noise(by_case=0.7), 0.0, ""),
    "steps": (Noise(steps=True), 0.0, ""),
    "ticks": (Noise(tick_s=1e-6), 0.0, ""),
    "shared wanders": (Noise(shared=0.01, shared_memory=0.95), 0.0, ""),
    "8 cases": (Noise(frameworks=1, sizes=8), 0.05, "one"),
    "3 cases": (Noise(frameworks=1, sizes=3), 0.04, "all"),
}


class _Simulated(Case):
    """A case that is equal to itself alone, which a dictionary finds faster than an equal case."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def grid(frameworks: int = 2, sizes: int = 21, families: int = 1) -> tuple[Case, ...]:
    """Return the cases of simulated devices, in the order of `Devices`."""
    return tuple(
        _Simulated(
            framework=framework,
            payload_bytes=KIB << power,
            workload=Collective(),
            strategy="psum",
            dtype=dtype,
            ranks=4,
            mesh="",
            protocol=Protocol.parse("device/chain8"),
        )
        for framework in _FRAMEWORKS[:frameworks]
        for dtype in _DTYPES[:families]
        for power in range(sizes)
    )


def rows(devices: int, sessions: int, seed: int, kinds: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each difference, and the count of sessions and differences at the end."""
    total = differing = 0
    for number, (name, kind) in enumerate(KINDS.items()):
        if kinds and name not in kinds:
            continue
        for text in _compared(Devices(kind[0], devices, (seed, number)), kind, sessions):
            total += 1
            if text:
                differing += 1
                yield f"{name}: {text}"
    yield f"{total} sessions judged by both, {differing} differ"


def _loss(devices: Devices, size: float, kind: str, session: int) -> Array | float:
    is_lost, log = session >= 5, math.log1p(size)
    losses: dict[str, Array | float] = {
        "one": log * devices.chosen * is_lost,
        "third": log * devices.chosen * (is_lost and session % 3 == 0),
        "ten": log * (np.arange(devices.cases) % 21 >= 11)[None] * is_lost,
        "creep": size / 10 * session,
        "all": log * is_lost,
        "repaired": log * (5 <= session < 12),
        "accepted": log * (session == 0),
    }
    return losses.get(kind, 0.0)


def _compared(devices: Devices, kind: tuple[Noise, float, str], sessions: int) -> Iterator[str]:
    """Yield what differs, by session and device; an empty text where both agree."""
    noise, size, name = kind
    cases = grid(noise.frameworks, noise.sizes, noise.families)
    accepted = devices.draw(3, _loss(devices, size, name, 0))
    batched = Judge(POLICY.rule, devices, accepted, sessions)
    histories = [
        _first_session(cases, times, devices, number) for number, times in enumerate(accepted)
    ]
    for session in range(1, sessions + 1):
        times = 3.0 if name == "noisy" and session % 5 == 0 else 1.0
        drawn = devices.draw(6, _loss(devices, size, name, session), times=times)
        outcomes = batched.session(drawn)
        for number, history in enumerate(histories):
            judged = judge(history, _times_s(cases, drawn[number]), POLICY)
            differences = ", ".join(_differences(judged, outcomes, cases, number, history))
            yield f"session {session}, device {number}: {differences}" if differences else ""
            append(history, judged.times_s)


def _times_s(cases: Sequence[Case], times: Array) -> Times:
    return {
        case: [float(time_s) for time_s in np.exp(launches)] for case, launches in zip(cases, times)
    }


def _first_session(
    cases: Sequence[Case], accepted: Array, devices: Devices, number: int
) -> History:
    """Return a history of the accepted session of one device."""
    times_s = _times_s(cases, accepted)
    first = {case: CaseTimes.of(launches, POLICY.rule) for case, launches in times_s.items()}
    history = history_of([first], POLICY, measured=cases)
    history.floors = dict(zip(cases, map(float, devices.floor[number])))
    return history


def _differences(
    judged: Judged, outcomes: Outcomes, cases: Sequence[Case], number: int, history: History
) -> list[str]:
    """Return what the product and device `number` of the batched rule decide differently."""
    product, frameworks = judged.assessment, list(judged.assessment.shared)
    odd = [accepted_deviation(history.cases[case], product.values[case]) for case in cases]
    shared_odd = [
        accepted_deviation(history.shared[name], product.values[name]) for name in frameworks
    ]
    pairs: dict[str, tuple[Sequence[float], Array]] = {
        "red": ([case in judged.red for case in cases], outcomes.red[number]),
        "improved": ([case in judged.improved for case in cases], outcomes.improved[number]),
        "window": ([product.states[case].discounts for case in cases], outcomes.window[number]),
        "launches": ([len(judged.times_s[case]) > 3 for case in cases], outcomes.confirmed[number]),
        "limit": ([product.limits[case].slower for case in cases], outcomes.limit[number]),
        "slower": ([name in product.slower for name in frameworks], outcomes.slower[number]),
        "noisy": ([product.is_noisy], outcomes.noisy[number : number + 1]),
        "odd": (odd, outcomes.odd[number]),
        "odd, shared": (shared_odd, outcomes.shared_odd[number]),
    }
    return [name for name, both in pairs.items() if not np.allclose(*both, rtol=1e-9, atol=1e-9)]
