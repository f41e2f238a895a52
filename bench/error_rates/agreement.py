"""Compare the batched rule with the rule of the product: both judge the same simulated sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from busbw.judge.lasting_losses import deviation_of_accepted_session
from busbw.judge.levels import build_replayed_history
from busbw.judge.policy import POLICIES
from busbw.judge.series import CaseTimes, ReplayedHistory
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.words import KIB, DeviceClass

from .arrays import Array
from .batched import Judge, Outcomes
from .devices import (
    Devices,
    Loss,
    Noise,
    loss_in_all_cases,
    loss_in_large_payloads,
    loss_in_one_case,
)
from .session import JudgedSession, Times, append_to_history, judge

POLICY = POLICIES[DeviceClass.TPU]
_FRAMEWORKS = ("jax", "tensorflow")
_DTYPES = ("float32", "bfloat16", "float16", "int32", "int8")

_NO_LOSS = loss_in_all_cases(0.0, 0)
# The noise of the devices and the loss of their sessions, by name.
KINDS: Mapping[str, tuple[Noise, Loss]] = {
    "quiet": (Noise(), _NO_LOSS),
    "one slower": (Noise(session_deviation=0.01, launch_deviation=0.01), loss_in_one_case(0.05, 5)),
    "all slower": (Noise(), loss_in_all_cases(0.03, 5)),
    "every third": (Noise(), loss_in_one_case(0.06, 5, period=3)),
    "repaired": (Noise(), loss_in_all_cases(0.05, 5, 11)),
    "ten faster": (Noise(), loss_in_large_payloads(-0.06, 5)),
    "creep": (Noise(), lambda session, devices: 0.002 * session),
    "noisy": (Noise(), _NO_LOSS),
    "odd accepted": (Noise(), loss_in_all_cases(0.05, 0, 0)),
    "t of 3": (Noise(degrees_of_freedom=3), _NO_LOSS),
    "two modes": (Noise(slow_mode_factor=1.25), _NO_LOSS),
    "by case": (Noise(noise_spread_by_case=0.7), _NO_LOSS),
    "steps": (Noise(has_payload_steps=True), _NO_LOSS),
    "ticks": (Noise(tick_s=1e-6), _NO_LOSS),
    "shared wanders": (Noise(shared_deviation=0.01, shared_correlation=0.95), _NO_LOSS),
    "8 cases": (Noise(framework_count=1, payload_count=8), loss_in_one_case(0.05, 5)),
    "3 cases": (Noise(framework_count=1, payload_count=3), loss_in_all_cases(0.04, 5)),
}


class _Simulated(Case):
    """A case that is equal only to itself, so that a dictionary finds it faster."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def grid(
    framework_count: int = 2, payload_count: int = 21, family_count: int = 1
) -> tuple[Case, ...]:
    """Return the cases of a simulated device, in the order of the arrays of `Devices`.

    `family_count` is the number of families (dtypes) of each framework, and `payload_count` the
    number of payloads of each family.
    """
    return tuple(
        _Simulated(
            framework=framework,
            payload_bytes=KIB << power,
            strategy="psum",
            dtype=dtype,
            ranks=4,
            mesh="",
            protocol=Protocol.parse("device/chain8"),
        )
        for framework in _FRAMEWORKS[:framework_count]
        for dtype in _DTYPES[:family_count]
        for power in range(payload_count)
    )


def rows(
    devices: int,
    sessions: int,
    seed: int,
    kind_names: Sequence[str] = (),
    *,
    automatic: bool = False,
) -> Iterator[str]:
    """Yield a line for each difference, and at the end a line with the counts.

    Args:
        devices: The number of simulated devices of each kind.
        sessions: The number of sessions of each device, without the accepted session.
        seed: The seed of the simulated times.
        kind_names: The names of the kinds in `KINDS` to compare; all if empty.
        automatic: Whether one launch of a case may decide.

    """
    total = differing = 0
    for number, (name, (noise, loss)) in enumerate(KINDS.items()):
        if kind_names and name not in kind_names:
            continue
        simulated = Devices(noise, devices, (seed, number))
        noisy_period = 5 if name == "noisy" else 0
        for text in _compare_sessions(simulated, loss, sessions, noisy_period, automatic):
            total += 1
            if text:
                differing += 1
                yield f"{name}: {text}"
    yield f"{total} sessions judged by both, {differing} differ"


def _compare_sessions(
    devices: Devices, loss: Loss, sessions: int, noisy_period: int, automatic: bool
) -> Iterator[str]:
    """Yield a text for each session of each device: the differences, or "" if both rules agree.

    Every `noisy_period`-th session has three times the noise; 0 for no such session.
    """
    noise = devices.noise
    cases = grid(noise.framework_count, noise.payload_count, noise.family_count)
    accepted = devices.draw(3, loss(0, devices))
    batched = Judge(POLICY.rule, devices, accepted, sessions, automatic=automatic)
    histories = [
        _first_session(cases, times, devices, number) for number, times in enumerate(accepted)
    ]
    for session in range(1, sessions + 1):
        factor = 3.0 if noisy_period and session % noisy_period == 0 else 1.0
        drawn = devices.draw(6, loss(session, devices), noise_factor=factor)
        outcomes = batched.judge_session(drawn)
        for number, history in enumerate(histories):
            single_launch_cases = [
                case for case, whole in zip(cases, batched.whole[number]) if not whole
            ]
            judged = judge(history, _times_s(cases, drawn[number]), POLICY, single_launch_cases)
            differences = ", ".join(_differences(judged, outcomes, cases, number, history))
            yield f"session {session}, device {number}: {differences}" if differences else ""
            append_to_history(history, judged.times_s)


def _times_s(cases: Sequence[Case], times: Array) -> Times:
    """Return the times of launches in seconds by case, from log times by case and launch."""
    return {
        case: [float(time_s) for time_s in np.exp(launches)] for case, launches in zip(cases, times)
    }


def _first_session(
    cases: Sequence[Case], accepted_times: Array, devices: Devices, device: int
) -> ReplayedHistory:
    """Return the history of one device after its accepted session.

    `accepted_times` are the log times by case and launch. `device` is the index of the device.
    """
    times_s = _times_s(cases, accepted_times)
    first = {case: CaseTimes.split(launches, POLICY.rule) for case, launches in times_s.items()}
    history = build_replayed_history([first], POLICY, measured_cases=cases)
    history.loss_floors = dict(zip(cases, map(float, devices.floor[device])))
    return history


def _differences(
    judged: JudgedSession,
    outcomes: Outcomes,
    cases: Sequence[Case],
    device: int,
    history: ReplayedHistory,
) -> list[str]:
    """Name the decisions on a device that differ between the product and the batched rule.

    `device` is the index of the device in the arrays of `outcomes`.
    """
    product, frameworks = judged.assessment, list(judged.assessment.shared_parts)
    odd = [
        deviation_of_accepted_session(
            history.series[case], product.latest_session_by_subject[case], history.rule
        )
        for case in cases
    ]
    shared_odd = [
        deviation_of_accepted_session(
            history.series[name], product.latest_session_by_subject[name], history.rule
        )
        for name in frameworks
    ]
    pairs: dict[str, tuple[Sequence[float], Array]] = {
        "red": ([case in judged.regressed_cases for case in cases], outcomes.red[device]),
        "improved": (
            [case in judged.improved_cases for case in cases],
            outcomes.improved[device],
        ),
        "window": (
            [product.latest_losses[case].window is not None for case in cases],
            outcomes.window[device],
        ),
        "launches": (
            [len(judged.times_s[case]) for case in cases],
            outcomes.launches[device],
        ),
        "limit": (
            [product.limits[case].slower_above_log_ratio for case in cases],
            outcomes.limit[device],
        ),
        "slower": (
            [name in product.slower_frameworks for name in frameworks],
            outcomes.slower[device],
        ),
        "noisy": ([product.is_noisy], outcomes.noisy[device : device + 1]),
        "odd": (odd, outcomes.odd[device]),
        "odd, shared": (shared_odd, outcomes.shared_odd[device]),
    }
    return [name for name, both in pairs.items() if not np.allclose(*both, rtol=1e-9, atol=1e-9)]
