"""The rules of other tools: at, below and beyond each of their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from busbw.model import MIB
from evidence.corpus import First, RecordedLaunch, Side
from evidence.draw import Draw, Outcome, Rule
from evidence.others import OTHERS, AsvContinuous, RcclPaired
from evidence.replay import replay
from evidence.resample import Scheme

from . import synthetic

SPREAD = tuple(1 + 0.001 * i for i in range(10))


def _side(factor: float, *, spread: Sequence[float] = SPREAD) -> Side:
    return Side(samples_s=tuple(1e-3 * factor * one for one in spread))


def _draw(factors: Mapping[int, float], *, launches: int = 7, stored: float = 1.0) -> Draw:
    """A session without noise: the candidate takes `factors` by payload of the reference."""
    now = {
        payload: tuple(
            RecordedLaunch(
                number=number,
                payload_bytes=payload,
                first=First.REFERENCE,
                reference=_side(1),
                candidate=_side(factor),
            )
            for number in range(launches)
        )
        for payload, factor in factors.items()
    }
    baseline = tuple({payload: (_side(stored),) * 5 for payload in factors} for _ in range(6))
    return Draw(framework="jax", ranks=4, now=now, further=now, baseline=baseline)


def _same(factor: float) -> Draw:
    return _draw({1024: factor, MIB: factor, 16 * MIB: factor})


LIMITS = {
    "pytest-benchmark mean:10%, stored run": 1.10,
    "pytest-benchmark min:10%, stored run": 1.10,
    "pytest-benchmark mean:10%, same session": 1.10,
    "pytest-benchmark min:10%, same session": 1.10,
    "asv continuous": 1.10,
    "XLA presubmit, 30 %": 1.30,
    "github-action-benchmark, 200 %": 2.0,
    "ROCm/cvs RCCL paired, 7 pairs": 1 / (1 - 0.125),
}


def test_every_rule_has_a_limit_here() -> None:
    assert set(LIMITS) == set(OTHERS)


@pytest.mark.parametrize("name", LIMITS)
def test_a_rule_alarms_just_beyond_its_limit_only(name: str) -> None:
    rule = OTHERS[name]
    assert rule(_same(1.0)) is Outcome.CLEAR
    assert rule(_same(LIMITS[name] - 0.002)) is Outcome.CLEAR
    assert rule(_same(LIMITS[name] + 0.002)) is Outcome.ALARM


@pytest.mark.parametrize("name", LIMITS)
def test_being_faster_is_no_alarm(name: str) -> None:
    assert OTHERS[name](_same(0.3)) is Outcome.CLEAR


@pytest.mark.parametrize("name", sorted(set(LIMITS) - {"ROCm/cvs RCCL paired, 7 pairs"}))
def test_one_slow_payload_is_enough(name: str) -> None:
    assert OTHERS[name](_draw({1024: 1.0, MIB: 2.5})) is Outcome.ALARM


@pytest.mark.parametrize(
    ("name", "outcome"),
    [(name, Outcome.ALARM if "same" in name else Outcome.CLEAR) for name in LIMITS if "py" in name],
)
def test_only_a_stored_run_knows_another_session(name: str, outcome: Outcome) -> None:
    slow_before = _draw({1024: 1.2}, stored=1.2)
    assert OTHERS[name](slow_before) is outcome


def test_asv_wants_significance_beside_the_factor() -> None:
    wide = tuple(1 + 0.1 * i for i in range(10))
    launches = [
        RecordedLaunch(
            number=number,
            payload_bytes=1024,
            first=First.REFERENCE,
            reference=_side(1, spread=wide),
            candidate=_side(1.12, spread=wide),
        )
        for number in range(2)
    ]
    now = {1024: tuple(launches)}
    draw = Draw(framework="jax", ranks=4, now=now, further=now, baseline=())
    assert AsvContinuous()(draw) is Outcome.CLEAR
    assert AsvContinuous(p_below=0.5)(draw) is Outcome.ALARM


@pytest.mark.parametrize(("rule", "launches"), [(AsvContinuous(), 2), (RcclPaired(), 7)])
def test_a_rule_with_too_few_launches_is_undecided(rule: Rule, launches: int) -> None:
    factors = {1024: 3.0, MIB: 3.0}
    assert rule(_draw(factors, launches=launches - 1)) is Outcome.UNDECIDED
    assert rule(_draw(factors, launches=launches)) is Outcome.ALARM


@pytest.mark.parametrize(
    ("factors", "outcome"),
    [
        ({1024: 3.0, MIB: 1.0, 16 * MIB: 3.0}, Outcome.CLEAR),
        ({1024: 3.0, MIB: 3.0, 16 * MIB: 1.0}, Outcome.ALARM),
        ({2 * MIB: 1.07, 4 * MIB: 1.07}, Outcome.ALARM),
        ({2 * MIB: 1.06, 4 * MIB: 1.06}, Outcome.CLEAR),
        ({128 * MIB: 1.04, 256 * MIB: 1.04}, Outcome.ALARM),
        ({128 * MIB: 1.03, 256 * MIB: 1.03}, Outcome.CLEAR),
    ],
)
def test_rccl_wants_adjacent_payloads_each_beyond_its_tier(
    factors: dict[int, float], outcome: Outcome
) -> None:
    assert RcclPaired()(_draw(factors)) is outcome


def test_rccl_wants_quartiles_apart() -> None:
    def launch(number: int, payload: int, before: float, now: float) -> RecordedLaunch:
        return RecordedLaunch(
            number=number,
            payload_bytes=payload,
            first=First.REFERENCE,
            reference=_side(before),
            candidate=_side(now),
        )

    times = [(1.0, 0.9), (1.0, 0.9), (1.0, 1.3), (1.0, 1.3), (1.0, 1.3), (1.4, 1.3), (1.4, 1.3)]
    now = {
        payload: tuple(launch(i, payload, *one) for i, one in enumerate(times))
        for payload in (1024, MIB)
    }
    draw = Draw(framework="jax", ranks=4, now=now, further=now, baseline=())
    assert RcclPaired()(draw) is Outcome.CLEAR


@pytest.mark.parametrize("name", [name for name, limit in LIMITS.items() if limit < 1.5])
def test_half_as_much_again_is_seen_in_quiet_sessions(name: str) -> None:
    sessions = synthetic.corpus(5, shares=(0.5,), each=3, noise=synthetic.QUIET)
    scheme = Scheme(replays=50, baseline_sessions=3)
    (found,) = replay(sessions, {name: OTHERS[name]}, scheme=scheme)
    assert found.unchanged.alarm_share == 0
    assert found.injected[0].alarm_share == 1
