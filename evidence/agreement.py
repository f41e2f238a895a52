"""Whether the batched judge and the product agree: the same sessions are judged by both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from busbw.judge.expected_times import Series
from busbw.judge.lasting_losses import Assessment, accepted_deviation
from busbw.judge.levels import history_of
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes, History
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.words import KIB
from busbw.model.words import Device as Class
from busbw.model.workload import Workload

from .batched import Judge, Outcomes
from .devices import Array, Devices, Noise
from .night import Night, keep, night

POLICY = POLICIES[Class.TPU]
FRAMEWORKS = ("jax", "tensorflow")
_DTYPES = ("float32", "bfloat16", "float16", "int32", "int8")


class _Simulated(Case):
    """A case that is equal to itself alone, which is found faster than an equal one."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def case(payload_bytes: int, framework: str = "jax", dtype: str = "float32") -> Case:
    return _Simulated(
        framework=framework,
        payload_bytes=payload_bytes,
        workload=Workload(),
        strategy="psum",
        dtype=dtype,
        ranks=4,
        mesh="",
        protocol=Protocol.parse("device/chain8"),
    )


def grid(frameworks: int = 2, sizes: int = 21, families: int = 1) -> tuple[Case, ...]:
    return tuple(
        case(KIB << power, name, dtype)
        for name in FRAMEWORKS[:frameworks]
        for dtype in _DTYPES[:families]
        for power in range(sizes)
    )


# By name: the noise, and the loss from session 5 on, as a share, of a kind of `_loss`.
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


def _loss(devices: Devices, size: float, how: str, session: int) -> Array | float:
    begun, log = session >= 5, math.log1p(size)
    found: dict[str, Array | float] = {
        "one": log * devices.chosen * begun,
        "third": log * devices.chosen * (begun and session % 3 == 0),
        "ten": log * (np.arange(devices.cases) % 21 >= 11)[None] * begun,
        "creep": size / 10 * session,
        "all": log * begun,
        "repaired": log * (5 <= session < 12),
        "accepted": log * (session == 0),
    }
    return found.get(how, 0.0)


def _compared(devices: Devices, kind: tuple[Noise, float, str], sessions: int) -> Iterator[str]:
    """Yield what differs, by session and device; empty where both agree."""
    noise, size, how = kind
    cases = grid(noise.frameworks, noise.sizes, noise.families)
    accepted = devices.draw(3, _loss(devices, size, how, 0))
    judge = Judge(
        POLICY.rule, devices.frameworks, accepted, sessions, sizes=noise.sizes, floor=devices.floor
    )
    steps = np.zeros(devices.cases)
    if noise.tick_s:
        steps = np.where(devices.payloads <= 64 * KIB, noise.tick_s, 0.0)
    ticks_s = {one: float(step) for one, step in zip(cases, steps) if step}
    histories = [
        _begun(cases, times, ticks_s, devices.level[at]) for at, times in enumerate(accepted)
    ]
    for session in range(1, sessions + 1):
        times = 3.0 if how == "noisy" and session % 5 == 0 else 1.0
        drawn = devices.draw(6, _loss(devices, size, how, session), times=times)
        batched = judge.session(drawn)
        for at, history in enumerate(histories):
            found = night(history, _times_s(cases, drawn[at]), POLICY)
            differ = _differences(found, batched, cases, at, history)
            yield f"session {session}, device {at}: {', '.join(differ)}" if differ else ""
            keep(history, found.times_s)


def _times_s(cases: Sequence[Case], times: Array) -> dict[Case, list[float]]:
    return {one: [float(time_s) for time_s in np.exp(own)] for one, own in zip(cases, times)}


def _begun(
    cases: Sequence[Case], accepted: Array, ticks_s: Mapping[Case, float], level: Array
) -> History:
    """Return a history of the accepted session; ticks are those of the device's own levels."""
    first = {c: CaseTimes.of(one, POLICY.rule) for c, one in _times_s(cases, accepted).items()}
    history = history_of([first], POLICY, measured=cases)
    history.floors = {
        one: float(np.log1p(1.1 * ticks_s[one] / np.exp(own)))
        for one, own in zip(cases, level)
        if one in ticks_s
    }
    return history


def _differences(
    found: Night, batched: Outcomes, cases: Sequence[Case], at: int, history: History
) -> list[str]:
    judged = found.judged
    names = [name for name in judged.shared]
    pairs: dict[str, tuple[Sequence[float], Array]] = {
        "red": ([one in found.red for one in cases], batched.red[at]),
        "improved": ([one in found.improved for one in cases], batched.improved[at]),
        "window": ([judged.states[one].discounts for one in cases], batched.window[at]),
        "launches": ([len(found.times_s[one]) > 3 for one in cases], batched.confirmed[at]),
        "limit": ([judged.limits[one].slower for one in cases], batched.limit[at]),
        "slower": ([name in judged.slower for name in names], batched.slower[at]),
        "noisy": ([judged.is_noisy], batched.noisy[at : at + 1]),
        "odd": (_odd(judged, history.cases, cases), batched.odd[at]),
        "odd, shared": (_odd(judged, history.shared, names), batched.shared_odd[at]),
    }
    return [name for name, both in pairs.items() if not np.allclose(*both, rtol=1e-9, atol=1e-9)]


def _odd(
    judged: Assessment,
    series: Mapping[Case, Series] | Mapping[str, Series],
    names: Sequence[Case] | Sequence[str],
) -> list[float]:
    return [accepted_deviation(series[name], judged.values[name]) for name in names]  # type: ignore[index]
