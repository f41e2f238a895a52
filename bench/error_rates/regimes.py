"""How often the rule errs on simulated devices: the rows of the table in docs/quiet.md.

Each row draws new devices. Each device has an accepted session, and later sessions that are judged
one after the other. A session is *red* if the exit code is 1, for any reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from busbw.judge.policy import POLICIES
from busbw.model.words import DeviceClass

from .arrays import Array
from .batched import Judge, Outcomes
from .devices import (
    LARGE,
    Devices,
    Loss,
    Noise,
    loss_in_all_cases,
    loss_in_large_payloads,
    loss_in_one_case,
)
from .shares import interval, percent, row

RULE = POLICIES[DeviceClass.TPU].rule
HALF, ONE = Noise(), Noise(session_deviation=0.01, launch_deviation=0.01)

# The factors by which a session multiplies the noise between sessions and between launches.
Factors = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The outcomes of the sessions of simulated devices, without the accepted session."""

    devices: Devices
    sessions: list[Outcomes]

    @property
    def failures_by_session(self) -> Array:
        """Whether the exit code is 1, by session and device."""
        return np.stack([outcomes.failed for outcomes in self.sessions])

    def failed(self, session: int) -> Array:
        """Return, for each device, whether the exit code of a session is 1.

        `session` counts from 1.
        """
        return self.sessions[session - 1].failed

    def is_named(self, session: int) -> Array:
        """Return, for each device, whether its case with the loss is REGRESSED in a session.

        `session` counts from 1.
        """
        return self.sessions[session - 1].red[self.devices.loss_cases]


# Returns the answers that a row counts, by the name of the share.
Count = Callable[[Run], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """A row of the table: how devices are simulated, and which answers are counted.

    The devices have `noise`, which is multiplied by the `noise_factors` of each session, and
    `loss`. `sessions` is the number of judged sessions. `count` returns the answers that are
    counted, by name. `expected` is the expected rate in percent; empty if there is none. A row has
    `device_factor` times as many devices as the user requests.
    """

    name: str
    noise: Noise = HALF
    sessions: int = 30
    loss: Loss = lambda session, devices: 0.0
    noise_factors: Callable[[int], Factors] = lambda session: (1.0, 1.0)
    count: Count
    expected: str = ""
    device_factor: float = 0.5

    def run(self, count: int, seed: tuple[int, ...], *, automatic: bool = False) -> Run:
        """Simulate and judge the sessions of `count` devices.

        With `automatic` one launch of a case may decide.
        """
        devices = Devices(self.noise, count, seed)
        accepted = devices.draw(3, self.loss(0, devices))
        judge = Judge(RULE, devices, accepted, self.sessions, automatic=automatic)
        outcomes = []
        for session in range(1, self.sessions + 1):
            session_factor, launch_factor = self.noise_factors(session)
            loss = self.loss(session, devices)
            drawn = devices.draw(
                6, loss, noise_factor=session_factor, launch_noise_factor=launch_factor
            )
            outcomes.append(judge.judge_session(drawn))
        return Run(devices=devices, sessions=outcomes)


# Losses, by session.


def _scattered_loss(increase: float, payload_count: int) -> Loss:
    """Return a loss of `payload_count` random payloads of both frameworks, from session 6 on."""

    def loss(session: int, devices: Devices) -> Any:
        if session == 0:
            ranks = np.argsort(devices.random.random((devices.count, 21)), 1)
            devices.loss_cases = np.tile(ranks < payload_count, 2)
        return np.log1p(increase) * devices.loss_cases * (session >= 6)

    return loss


# Functions that return the answers of a row.


def _count_unchanged(run: Run) -> dict[str, Any]:
    """Count red sessions among all sessions, in the first, the second and the worst session."""
    failures = run.failures_by_session
    return {
        "mean": failures,
        "1st": failures[0],
        "2nd": failures[1],
        "worst": failures[np.argmax(failures.mean(1))],
    }


def _count_failed(first_session: int, *session_numbers: int) -> Count:
    """Return a function that counts red devices in some sessions of a loss.

    The loss begins in session `first_session`. `session_numbers` count the sessions with the loss
    from 1.
    """
    return lambda run: {f"{n}.": run.failed(first_session + n - 1) for n in session_numbers}


def _count_named(first_session: int, *session_numbers: int, period: int = 1) -> Count:
    """Return a function that counts devices on which the case with the loss is REGRESSED.

    The loss begins in session `first_session` and is in every `period`-th session.
    `session_numbers` count the sessions with the loss from 1.
    """
    return lambda run: {
        f"{n}.": run.is_named(first_session + period * (n - 1)) for n in session_numbers
    }


def _count_comes_and_goes(run: Run) -> dict[str, Any]:
    """Count named cases in the sessions with the loss, and red sessions between them."""
    between = [run.failed(session) for session in range(7, 36) if session % 3]
    return {**_count_named(6, 1, 2, 3, 10, period=3)(run), "between": np.stack(between)}


def _count_repaired(run: Run) -> dict[str, Any]:
    """Count devices that are green after a repair, of the devices that were red before it."""
    was_red = run.failed(15)
    return {f"{n}. green": ~run.failed(15 + n)[was_red] for n in (1, 2, 3)}


def _count_creep(last_session: int) -> Count:
    """Return a function that counts devices with a red session until session `last_session`.

    It also counts red sessions from the first red session of each device on.
    """

    def count(run: Run) -> dict[str, Any]:
        failures = run.failures_by_session
        later_failures = [device[device.argmax() :] for device in failures.T if device.any()]
        is_red = failures[:last_session].any(0)
        return {f"red by {last_session}": is_red, "stays": np.concatenate(later_failures)}

    return count


def _count_wanders(run: Run) -> dict[str, Any]:
    """Count devices with at most two changes between red and green, and noisy last sessions."""
    failures = np.pad(run.failures_by_session, ((1, 0), (0, 0)))
    changes = (failures[1:] != failures[:-1]).sum(0)
    return {"at most 2 changes": changes <= 2, "NO_VERDICT at the end": run.sessions[-1].noisy}


def _count_odd(run: Run) -> dict[str, Any]:
    """Count devices whose shared part, or whose case with the loss, is reported as odd.

    The accepted session is compared with the first three sessions after it.
    """
    last = run.sessions[2]
    shared, alone = (last.shared_odd != 0).all(1), (last.odd != 0)[run.devices.loss_cases]
    return {"shared, by 3": shared, "one, by 3": alone}


def _count_any_odd(run: Run) -> dict[str, Any]:
    """Count devices with an accepted time that is reported as odd after three sessions."""
    last = run.sessions[2]
    return {"by 3": (last.odd != 0).any(1) | (last.shared_odd != 0).any(1)}


def _count_after_alarm(run: Run) -> dict[str, Any]:
    """Count devices that are green again in the second session after a false alarm."""
    failures = run.failures_by_session
    false_alarms = failures[2:-2] & ~failures[1:-3] & ~failures[:-4]
    return {"2. green": ~failures[4:][false_alarms]}


def _count_noisy_sessions(run: Run) -> dict[str, Any]:
    """Count devices with two noisy sessions by session 20, and with a noisy session 10."""
    noisy_sessions = np.stack([outcomes.noisy for outcomes in run.sessions[9:20]])
    return {"2 of the last 10 by 20": (noisy_sessions[1:].sum(0) >= 2), "1st": noisy_sessions[0]}


def _count_case_red(run: Run) -> dict[str, Any]:
    """Count devices with a REGRESSED case in the sessions 2, 4 and 11."""
    return {f"in {n}": run.sessions[n - 1].red.any(1) for n in (2, 4, 11)}


def _count_scattered(run: Run) -> dict[str, Any]:
    """Count REGRESSED cases among the cases with a loss, and noisy sessions."""
    last = run.sessions[5]
    return {"named": last.red[run.devices.loss_cases], "NO_VERDICT": last.noisy}


def _count_faster(run: Run) -> dict[str, Any]:
    """Count red sessions, and IMPROVED cases among the cases that became faster."""
    named = np.stack([outcomes.improved[:, LARGE] for outcomes in run.sessions[5:]])
    return {"red": run.failures_by_session[5:], "named": named}


# The rows, in the order of the table.


def _noise_text(noise: Noise) -> str:
    """Return the noise between sessions and between launches in percent, such as ``0.5/0.5``."""
    return f"{100 * noise.session_deviation:g}/{100 * noise.launch_deviation:g}"


def _lasting_loss_regimes() -> Iterator[Regime]:
    """Yield the rows of losses that last, that come and go, or that are repaired."""
    for size, first in ((0.05, 1), (0.05, 4), (0.05, 11), (0.03, 4), (0.03, 11)):
        yield Regime(
            name=f"+{100 * size:.0f} % in all from session {first}: red",
            sessions=first + 29,
            loss=loss_in_all_cases(size, first),
            count=_count_failed(first, 1, 2, 5, 20, 30),
        )
    for size, noise in ((0.2, HALF), (0.1, HALF), (0.05, HALF), (0.1, ONE)):
        yield Regime(
            name=f"+{100 * size:.0f} % in one every third session, {_noise_text(noise)}",
            noise=noise,
            sessions=35,
            loss=loss_in_one_case(size, 6, period=3),
            count=_count_comes_and_goes,
        )
    for first in (11, 6, 2):
        yield Regime(
            name=f"+5 % in one that stays, 1/1, from session {first}: named",
            noise=ONE,
            sessions=first + 24,
            loss=loss_in_one_case(0.05, first),
            count=_count_named(first, 1, 5, 10, 25),
        )
    for size, number in ((0.1, 4), (0.1, 7), (0.1, 10), (0.05, 10)):
        name = f"+{100 * size:.0f} % in {number} scattered sizes of 21"
        yield Regime(
            name=name, sessions=6, loss=_scattered_loss(size, number), count=_count_scattered
        )
    for where, noise, loss in (
        ("+20 % in one", HALF, loss_in_one_case(0.2, 6, 15)),
        ("+5 % in all", HALF, loss_in_all_cases(0.05, 6, 15)),
        ("+5 % in one", ONE, loss_in_one_case(0.05, 6, 15)),
    ):
        name = f"{where} repaired, {_noise_text(noise)}"
        yield Regime(name=name, noise=noise, sessions=18, loss=loss, count=_count_repaired)


def _noise_regimes(noise: Noise) -> Iterator[Regime]:
    """Yield the rows of false alarms and of noisy sessions."""
    name = f"a session after a false alarm, {_noise_text(noise)}"
    # False alarms are rare: to see a few dozen, the row needs thousands of devices.
    yield Regime(name=name, noise=noise, sessions=40, count=_count_after_alarm, device_factor=4.0)
    yield Regime(
        name=f"noise doubles at session 10, {_noise_text(noise)}: noisy",
        noise=noise,
        sessions=20,
        noise_factors=lambda session: (2.0, 2.0) if session >= 10 else (1.0, 1.0),
        count=_count_noisy_sessions,
    )
    for part, factors in (("", (3.0, 3.0)), (", of sessions alone", (3.0, 1.0))):
        yield Regime(
            name=f"3 x the noise in sessions 2, 4 and 11{part}, {_noise_text(noise)}: a case red",
            noise=noise,
            sessions=11,
            noise_factors=_factors_in_some_sessions(factors),
            count=_count_case_red,
        )


def _factors_in_some_sessions(factors: Factors) -> Callable[[int], Factors]:
    """Return a function that returns `factors` for the sessions 2, 4 and 11, and else 1."""
    return lambda session: factors if session in (2, 4, 11) else (1.0, 1.0)


def _unchanged_regimes() -> Iterator[Regime]:
    """Yield the rows of unchanged code with different kinds of noise."""
    for name, noise, expected in (
        ("0.5/0.5", HALF, "<= 0.2"),
        ("1/1", ONE, "<= 0.4"),
        ("sizes correlated 0.8", Noise(neighbour_correlation=0.8), "<= 0.3"),
        ("one of two modes", Noise(slow_mode_factor=1.25), "<= 0.3"),
        ("8 cases", Noise(framework_count=1, payload_count=8), "<= 0.2"),
        ("3 cases", Noise(framework_count=1, payload_count=3), "<= 0.2"),
        ("2 cases", Noise(framework_count=1, payload_count=2), "<= 0.2"),
        ("210 cases", Noise(family_count=5), "<= 0.5"),
        ("t of 3 degrees", Noise(degrees_of_freedom=3), "<= 6"),
        (
            "t of 5 degrees, 1/1",
            Noise(session_deviation=0.01, launch_deviation=0.01, degrees_of_freedom=5),
            "<= 4",
        ),
        ("noise differs by case", Noise(noise_spread_by_case=0.7), "<= 2.5, 2nd 7"),
        ("launches differ by case", Noise(launch_noise_spread_by_case=0.7), ""),
        ("steps over the sizes", Noise(has_payload_steps=True), "<= 1, 1st 3"),
        (
            "sessions 1.5, launches 0.3",
            Noise(session_deviation=0.015, launch_deviation=0.003),
            "<= 2.5, 1st 3",
        ),
        ("ticks of 1 us", Noise(tick_s=1e-6), "<= 0.7"),
        ("1 % common to all", Noise(shared_deviation=0.01), "<= 2, worst 3.5"),
    ):
        yield Regime(
            name=f"unchanged, {name}: red",
            noise=noise,
            count=_count_unchanged,
            expected=expected,
            device_factor=1.0,
        )


def _single_session_regimes() -> Iterator[Regime]:
    """Yield the rows of losses in a single session, and of cases that became faster."""
    for size, noise in ((0.05, HALF), (0.1, ONE)):
        for after in (1, 3, 10):
            yield Regime(
                name=f"+{100 * size:.0f} % in one after {after}, {_noise_text(noise)}: named",
                noise=noise,
                sessions=after + 1,
                loss=loss_in_one_case(size, after + 1),
                count=_count_named(after + 1, 1),
                device_factor=2.0,
            )
    for size, noise in ((-0.06, HALF), (-0.12, ONE)):
        name = f"ten of 21 sizes {-100 * size:.0f} % faster, {_noise_text(noise)}"
        yield Regime(
            name=name,
            noise=noise,
            sessions=17,
            loss=loss_in_large_payloads(size, 6),
            count=_count_faster,
        )


def _slow_change_regimes() -> Iterator[Regime]:
    """Yield the rows of levels that change slowly, and of odd accepted sessions."""
    week = 0.01 / 7
    for where, by, crept in (
        ("one", 33, lambda session, devices: week * session * devices.loss_cases),
        ("all", 27, lambda session, devices: week * session * 1.0),
    ):
        name = f"creep of 1 % a week in {where}"
        yield Regime(name=name, sessions=60, loss=crept, count=_count_creep(by))
    for name, noise, loss in (
        ("own parts wander (AR .95)", Noise(case_correlation=0.95), loss_in_all_cases(0.0, 1)),
        (
            "the shared part wanders (AR .95, 1 %)",
            Noise(shared_deviation=0.01, shared_correlation=0.95),
            loss_in_all_cases(0.0, 1),
        ),
        ("an equal machine, 1 % slower, from session 21", HALF, loss_in_all_cases(0.01, 21)),
    ):
        yield Regime(name=name, noise=noise, sessions=60, loss=loss, count=_count_wanders)
    for where, loss in (
        ("+5 % in all", loss_in_all_cases(0.05, 0, 0)),
        ("+10 % in one", loss_in_one_case(0.1, 0, 0)),
        ("-10 % in one", loss_in_one_case(-0.1, 0, 0)),
    ):
        name = f"the accepted session {where}: reported"
        yield Regime(name=name, sessions=3, loss=loss, count=_count_odd)
    for noise in (HALF, ONE):
        name = f"an ordinary accepted session, {_noise_text(noise)}: reported"
        yield Regime(name=name, noise=noise, sessions=3, count=_count_any_odd)


REGIMES = (
    *_lasting_loss_regimes(),
    *_noise_regimes(HALF),
    *_noise_regimes(ONE),
    *_unchanged_regimes(),
    *_single_session_regimes(),
    *_slow_change_regimes(),
)


def rows(
    devices: int, seed: int, name_parts: Collection[str] = (), *, automatic: bool = False
) -> Iterator[str]:
    """Yield the lines of the table.

    Args:
        devices: The number of devices of a row with unchanged code. In other rows it is multiplied
            by the row's `device_factor`.
        seed: The seed of the simulated times.
        name_parts: Parts of the names of the rows to yield; all rows if empty.
        automatic: Whether one launch of a case may decide.

    """
    yield row("regime", "shares in % (95 %)", "wanted, %")
    yield row(*["---"] * 3)
    for number, regime in enumerate(REGIMES):
        if name_parts and not any(part in regime.name for part in name_parts):
            continue
        count = max(1, int(devices * regime.device_factor))
        run = regime.run(count, (seed, number), automatic=automatic)
        texts = (f"{name} {_share_text(values)}" for name, values in regime.count(run).items())
        yield row(regime.name, "; ".join(texts), regime.expected)


def _share_text(values: Array) -> str:
    """Return the share of True values in percent, its 95 % interval, and the number of values."""
    if not values.size:
        return "none"
    hits, among = int(values.sum()), int(values.size)
    lower, upper = map(percent, interval(hits, among, "wilson"))
    return f"{percent(hits / among)} ({lower} to {upper}; {among})".replace(" %", "")
