"""Synthetic recordings with a seed: log-normal launches, noise both sides share, drift and spikes.

No test lives here. The noises are of the kind and size that shared machines have, so that rules
behave as on recordings; what a machine does, these recordings do not say.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from busbw.model import MIB
from evidence.corpus import First, Injection, Kind, RecordedLaunch, RecordedSession, Side

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
PAYLOADS = (MIB // 1024, MIB, 16 * MIB)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the logarithm: between sessions, pairs, sides and samples."""

    session: float = 0.10
    pair: float = 0.08
    side: float = 0.03
    drift: float = 0.03
    sample: float = 0.02
    spike_share: float = 0.03


QUIET = Noise(session=0.005, pair=0.005, side=0.002, drift=0.001, sample=0.002, spike_share=0)


def session(
    number: int,
    *,
    share: float | None = None,
    noise: Noise | None = None,
    launches: int = 8,
    payloads: tuple[int, ...] = PAYLOADS,
    samples: int = 10,
    seed: int = 1,
    framework: str = "jax",
) -> RecordedSession:
    """Session `number`, always the same one; `share` more time for the candidate if given."""
    noise = noise or Noise()
    chance = random.Random(f"{seed} {number} {share}")
    moment = (BEGIN + timedelta(hours=number)).isoformat()
    common = math.exp(chance.gauss(0, noise.session))
    pairs = []
    for launch in range(1, launches + 1):
        shared = common * math.exp(chance.gauss(0, noise.pair))
        for payload in payloads:
            shape = shared, share or 0, samples
            pairs.append(_pair(launch, payload, shape=shape, noise=noise, chance=chance))
    return RecordedSession(
        id=f"{moment}-{number}" + (f"-{share}" if share else ""),
        recorded=moment,
        kind=Kind.AA if share is None else Kind.INJECTED,
        injection=None if share is None else Injection(kind="delay", share=share),
        framework=framework,
        ranks=4,
        load=round(chance.uniform(0.1, 1.5), 1),
        versions={framework: "1.2.3"},
        wall_s=round(chance.uniform(50, 80), 1),
        launches=tuple(pairs),
        machine="two fake cores",
    )


def corpus(
    aa: int = 10, *, shares: tuple[float, ...] = (), each: int = 5, noise: Noise | None = None
) -> tuple[RecordedSession, ...]:
    """`aa` unchanged sessions and `each` for every share, in the order of their dates."""
    unchanged = [session(number, noise=noise) for number in range(aa)]
    slowed = [
        session(aa + index * each + number, share=share, noise=noise)
        for index, share in enumerate(shares)
        for number in range(each)
    ]
    return (*unchanged, *slowed)


def _pair(
    number: int,
    payload: int,
    *,
    shape: tuple[float, float, int],
    noise: Noise,
    chance: random.Random,
) -> RecordedLaunch:
    shared, share, samples = shape
    ideal_s = 1e-4 + payload / 4e9
    drift = 0.0
    sides: tuple[list[float], list[float]] = [], []
    levels = [math.exp(chance.gauss(0, noise.side)) for _ in sides]
    for _ in range(samples):
        drift += chance.gauss(0, noise.drift)
        for slower, level, times_s in zip((0, share), levels, sides):
            spike = 1 + chance.paretovariate(1.5) * (chance.random() < noise.spike_share)
            own = math.exp(drift + chance.gauss(0, noise.sample)) * spike
            times_s.append(ideal_s * (1 + slower) * shared * level * own)
    anchors_s = tuple(3e-3 * shared * math.exp(chance.gauss(0, 0.01)) for _ in range(4))
    reference, candidate = (Side(samples_s=tuple(one), anchors_s=anchors_s) for one in sides)
    return RecordedLaunch(
        number=number,
        payload_bytes=payload,
        first=First.REFERENCE if number % 2 else First.CANDIDATE,
        reference=reference,
        candidate=candidate,
    )
