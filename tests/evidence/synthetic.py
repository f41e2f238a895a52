"""Synthetic recordings with a seed, of noise that shared machines have; and draws without noise."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from busbw import wire
from busbw.model.words import MIB
from evidence.corpus import Injection, RecordedLaunch, RecordedSession, Side
from evidence.replay import Draw

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAYLOADS = (MIB // 1024, MIB, 16 * MIB)
SPREAD = tuple(1 + 0.001 * i for i in range(11))


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of the logarithm: between sessions, pairs, sides and samples."""

    session: float = 0.10
    pair: float = 0.08
    side: float = 0.03
    sample: float = 0.02


QUIET = Noise(session=0.005, pair=0.005, side=0.002, sample=0.002)


def session(
    number: int,
    *,
    share: float | None = None,
    noise: Noise | None = None,
    launches: int = 8,
    payloads: tuple[int, ...] = PAYLOADS,
    framework: str = "jax",
) -> RecordedSession:
    """Session `number`, always the same one; `share` more time for the candidate if given."""
    noise, chance = noise or Noise(), random.Random(f"{number} {share}")
    moment = (BEGIN + timedelta(hours=number)).isoformat()
    common, pairs = chance.gauss(0, noise.session), []
    for launch in range(1, launches + 1):
        shared = common + chance.gauss(0, noise.pair)
        for payload in payloads:
            level = math.log(1e-4 + payload / 4e9) + shared
            before, now = (
                _side(level + math.log1p(slower), noise, chance) for slower in (0, share or 0)
            )
            pairs.append(_launch(launch, payload, before, now))
    return RecordedSession(
        id=f"{moment}-{number}" + (f"-{share}" if share else ""),
        recorded=moment,
        kind="injected" if share else "aa",
        injection=Injection(kind="delay", share=share) if share else None,
        framework=framework,
        ranks=4,
        load=0.5,
        versions={framework: "1.2.3"},
        wall_s=60.0,
        launches=tuple(pairs),
        machine="two fake cores",
    )


def corpus(
    aa: int = 10, *, shares: tuple[float, ...] = (), each: int = 5, noise: Noise | None = None
) -> tuple[RecordedSession, ...]:
    """`aa` unchanged sessions and `each` for every share, in the order of their dates."""
    wanted = [*[None] * aa, *(share for share in shares for _ in range(each))]
    return tuple(session(number, share=of, noise=noise) for number, of in enumerate(wanted))


def side(factor: float, spread: Sequence[float] = SPREAD) -> Side:
    """Samples of about a millisecond times `factor`."""
    return Side(samples_s=tuple(1e-3 * factor * one for one in spread))


def draw(factors: Mapping[int, Sequence[float]], stored: Sequence[float] = (1.0,) * 6) -> Draw:
    """A session without noise: by payload, how long each launch's candidate takes.

    Its reference takes 1, and the launches of the sessions before it took `stored`.
    """
    return Draw(
        pairs={
            payload: tuple(_launch(i, payload, side(1), side(one)) for i, one in enumerate(of))
            for payload, of in factors.items()
        },
        baseline=tuple({payload: (side(one),) * 5 for payload in factors} for one in stored),
    )


def _launch(number: int, payload: int, reference: Side, candidate: Side) -> RecordedLaunch:
    return RecordedLaunch(
        number=number,
        payload_bytes=payload,
        first="reference",
        reference=reference,
        candidate=candidate,
    )


def _side(level: float, noise: Noise, chance: random.Random) -> Side:
    level += chance.gauss(0, noise.side)
    samples = (math.exp(level + chance.gauss(0, noise.sample)) for _ in range(11))
    return Side(samples_s=tuple(float(f"{one:.4g}") for one in samples))


def write(path: Path, *sessions: RecordedSession) -> None:
    """A file of a corpus."""
    lines = "".join(f"{json.dumps(wire.to_json(one))}\n" for one in sessions)
    path.write_bytes(gzip.compress(lines.encode()))
