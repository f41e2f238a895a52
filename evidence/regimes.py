"""How often the rule errs on simulated devices: the rows of the table in docs/quiet.md.

Every row draws its own devices, which have one accepted session and then sessions that are judged
one after the other. *Red* is exit code 1, for whatever reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from busbw.judge.policy import POLICIES
from busbw.model.words import Device as Class

from .batched import Judge, Outcomes
from .devices import Array, Devices, Noise
from .shares import percent, row, wilson

RULE = POLICIES[Class.TPU].rule
_SHARED_WANDERS = Noise(shared=0.01, shared_memory=0.95)
HALF, ONE = Noise(), Noise(session=0.01, launch=0.01)

# The loss of a session, counted from the accepted one, 0, by device and case.
Loss = Callable[[int, Devices], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What was decided about each session of some devices, the first after the accepted one."""

    devices: Devices
    sessions: list[Outcomes]

    def failed(self, session: int) -> Array:
        """Return which devices have exit code 1 in a session, counted from 1."""
        return self.sessions[session - 1].failed

    def named(self, session: int) -> Array:
        """Return on which devices the case that lost is REGRESSED."""
        found: Array = self.sessions[session - 1].red[self.devices.chosen]
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """A row: noise, how many sessions, what is lost, and what is counted in the run."""

    name: str
    noise: Noise = HALF
    sessions: int = 30
    loss: Loss = lambda session, devices: 0.0
    noisy: Callable[[int], tuple[float, float]] = lambda session: (1.0, 1.0)
    count: Callable[[Run], dict[str, Any]]
    wanted: str = ""
    share: int = field(default=2)

    def run(self, devices: int, seed: tuple[int, ...]) -> Run:
        drawn = Devices(self.noise, devices, seed)
        accepted = drawn.draw(3, self.loss(0, drawn))
        judge = Judge(
            RULE,
            drawn.frameworks,
            accepted,
            self.sessions,
            sizes=self.noise.sizes,
            floor=drawn.floor,
        )
        found = []
        for session in range(1, self.sessions + 1):
            times, launches = self.noisy(session)
            loss = self.loss(session, drawn)
            found.append(judge.session(drawn.draw(6, loss, times=times, launch_times=launches)))
        return Run(devices=drawn, sessions=found)


def _in_all(size: float, first: int, last: int = 999) -> Loss:
    return lambda session, devices: np.log1p(size) if first <= session <= last else 0.0


def _in_one(size: float, first: int, last: int = 999, every: int = 1) -> Loss:
    def loss(session: int, devices: Devices) -> Any:
        lost = first <= session <= last and session % every == 0
        return np.log1p(size) * devices.chosen if lost else 0.0

    return loss


def _faster(size: float) -> Loss:
    """Ten sizes of 21 of both frameworks, from session 6 on."""
    return lambda session, devices: np.log1p(size) * (session >= 6) * _LARGE[None]


_LARGE = np.arange(42) % 21 >= 11


def _scattered(size: float, count: int) -> Loss:
    """`count` drawn sizes of both frameworks, from session 6 on."""

    def loss(session: int, devices: Devices) -> Any:
        if session == 0:
            ranks = np.argsort(devices.random.random((devices.count, 21)), 1)
            devices.chosen = np.tile(ranks < count, 2)
        return np.log1p(size) * devices.chosen * (session >= 6)

    return loss


def _unchanged(run: Run) -> dict[str, Any]:
    every = np.stack([one.failed for one in run.sessions])
    return {"mean": every, "1st": every[0], "2nd": every[1], "worst": every[every.mean(1).argmax()]}


def _failed(first: int, *numbers: int) -> Callable[[Run], dict[str, Any]]:
    return lambda run: {f"{n}.": run.failed(first + n - 1) for n in numbers}


def _named(first: int, *numbers: int, every: int = 1) -> Callable[[Run], dict[str, Any]]:
    return lambda run: {f"{n}.": run.named(first + every * (n - 1)) for n in numbers}


def _comes_and_goes(run: Run) -> dict[str, Any]:
    between = [run.failed(session) for session in range(7, 36) if session % 3]
    return {**_named(6, 1, 2, 3, 10, every=3)(run), "between": np.stack(between)}


def _repaired(run: Run) -> dict[str, Any]:
    was_red = run.failed(15)
    return {f"{n}. green": ~run.failed(15 + n)[was_red] for n in (1, 2, 3)}


def _creep(by: int) -> Callable[[Run], dict[str, Any]]:
    def count(run: Run) -> dict[str, Any]:
        every = np.stack([one.failed for one in run.sessions])
        since = [own[own.argmax() :] for own in every.T if own.any()]
        return {f"red by {by}": every[:by].any(0), "stays": np.concatenate(since)}

    return count


def _wanders(run: Run) -> dict[str, Any]:
    every = np.stack([np.zeros(run.devices.count, bool), *(one.failed for one in run.sessions)])
    changes = (every[1:] != every[:-1]).sum(0)
    return {"at most 2 changes": changes <= 2, "NO_VERDICT at the end": run.sessions[-1].noisy}


def _odd(run: Run) -> dict[str, Any]:
    last = run.sessions[2]
    shared, own = (last.shared_odd != 0).all(1), (last.odd != 0)[run.devices.chosen]
    return {"shared, by 3": shared, "one, by 3": own}


def _any_odd(run: Run) -> dict[str, Any]:
    last = run.sessions[2]
    return {"by 3": (last.odd != 0).any(1) | (last.shared_odd != 0).any(1)}


def _after_alarm(run: Run) -> dict[str, Any]:
    every = np.stack([one.failed for one in run.sessions])
    fresh = every[2:-2] & ~every[1:-3] & ~every[:-4]
    return {"2. green": ~every[4:][fresh]}


def _noisy_sessions(run: Run) -> dict[str, Any]:
    every = np.stack([one.noisy for one in run.sessions[9:20]])
    return {"2 of the last 10 by 20": (every[1:].sum(0) >= 2), "1st": every[0]}


def _case_red(run: Run) -> dict[str, Any]:
    return {f"in {n}": run.sessions[n - 1].red.any(1) for n in (2, 4, 11)}


def _lasting() -> Iterator[Regime]:
    for size, firsts in ((0.05, (1, 4, 11)), (0.03, (4, 11))):
        for first in firsts:
            name = f"+{100 * size:.0f} % in all from session {first}: red"
            count = _failed(first, 1, 2, 5, 20, 30)
            yield Regime(name=name, sessions=first + 29, loss=_in_all(size, first), count=count)
    for size, noise in ((0.2, HALF), (0.1, HALF), (0.05, HALF), (0.1, ONE)):
        name = f"+{100 * size:.0f} % in one every third session, {_text(noise)}"
        loss = _in_one(size, 6, every=3)
        yield Regime(name=name, noise=noise, sessions=35, loss=loss, count=_comes_and_goes)
    for first in (11, 6, 2):
        name = f"+5 % in one that stays, 1/1, from session {first}: named"
        count, loss = _named(first, 1, 5, 10, 25), _in_one(0.05, first)
        yield Regime(name=name, noise=ONE, sessions=first + 24, loss=loss, count=count)
    for size, number in ((0.1, 4), (0.1, 7), (0.1, 10), (0.05, 10)):
        name = f"+{100 * size:.0f} % in {number} scattered sizes of 21"
        yield Regime(name=name, sessions=6, loss=_scattered(size, number), count=_of_scattered)
    for size, noise, everywhere in ((0.2, HALF, False), (0.05, HALF, True), (0.05, ONE, False)):
        name = f"+{100 * size:.0f} % in {'all' if everywhere else 'one'} repaired, {_text(noise)}"
        loss = (_in_all if everywhere else _in_one)(size, 6, 15)
        yield Regime(name=name, noise=noise, sessions=18, loss=loss, count=_repaired)


def _noisy() -> Iterator[Regime]:
    for noise in (HALF, ONE):
        name = f"a session after a false alarm, {_text(noise)}"
        yield Regime(name=name, noise=noise, sessions=40, count=_after_alarm)
        yield Regime(
            name=f"noise doubles at session 10, {_text(noise)}: noisy",
            noise=noise,
            sessions=20,
            noisy=lambda session: (2.0, 2.0) if session >= 10 else (1.0, 1.0),
            count=_noisy_sessions,
        )
        for launches in (3.0, 1.0):
            part = "" if launches > 1 else ", of sessions alone"
            yield Regime(
                name=f"3 x the noise in one session{part}, {_text(noise)}: a case red",
                noise=noise,
                sessions=11,
                noisy=lambda session, launches=launches: (  # type: ignore[misc]
                    (3.0, launches) if session in (2, 4, 11) else (1.0, 1.0)
                ),
                count=_case_red,
            )


def _one_session() -> Iterator[Regime]:
    for size, noise in ((0.05, HALF), (0.1, ONE)):
        for after in (1, 3, 10):
            name = f"+{100 * size:.0f} % in one after {after}, {_text(noise)}: named"
            count, loss = _named(after + 1, 1), _in_one(size, after + 1)
            yield Regime(name=name, noise=noise, sessions=after + 1, loss=loss, count=count)
    for size, noise in ((-0.06, HALF), (-0.12, ONE)):
        name = f"ten of 21 sizes {-100 * size:.0f} % faster, {_text(noise)}"
        yield Regime(name=name, noise=noise, sessions=17, loss=_faster(size), count=_of_faster)


def _courses() -> Iterator[Regime]:
    yield Regime(
        name="creep of 1 % a week in one", sessions=60, loss=_crept(True), count=_creep(33)
    )
    yield Regime(
        name="creep of 1 % a week in all", sessions=60, loss=_crept(False), count=_creep(27)
    )
    for name, noise, loss in (
        ("own parts wander (AR .95)", Noise(own_memory=0.95), _in_all(0.0, 1)),
        (
            "the shared part wanders (AR .95, 1 %)",
            Noise(shared=0.01, shared_memory=0.95),
            _in_all(0.0, 1),
        ),
        ("an equal machine, 1 % slower, from session 21", HALF, _in_all(0.01, 21)),
    ):
        yield Regime(name=name, noise=noise, sessions=60, loss=loss, count=_wanders)
    for size, everywhere in ((0.05, True), (0.1, False), (-0.1, False)):
        where = "all" if everywhere else "one"
        name = f"the accepted session {100 * size:+.0f} % in {where}: reported"
        loss = (_in_all if everywhere else _in_one)(size, 0, 0)
        yield Regime(name=name, sessions=3, loss=loss, count=_odd)
    for noise in (HALF, ONE):
        name = f"an ordinary accepted session, {_text(noise)}: reported"
        yield Regime(name=name, noise=noise, sessions=3, count=_any_odd)


def _unchanged_regimes() -> Iterator[Regime]:
    for name, noise, wanted in (
        ("0.5/0.5", HALF, "<= 0.2"),
        ("1/1", ONE, "<= 0.4"),
        ("sizes correlated 0.8", Noise(neighbours=0.8), "<= 0.3"),
        ("one of two modes", Noise(slow_mode=1.25), "<= 0.3"),
        ("8 cases", Noise(frameworks=1, sizes=8), "<= 0.2"),
        ("3 cases", Noise(frameworks=1, sizes=3), "<= 0.2"),
        ("2 cases", Noise(frameworks=1, sizes=2), "<= 0.2"),
        ("210 cases", Noise(families=5), "<= 0.5"),
        ("t of 3 degrees", Noise(freedom=3), "<= 6"),
        ("t of 5 degrees, 1/1", Noise(session=0.01, launch=0.01, freedom=5), "<= 4"),
        ("noise differs by case", Noise(by_case=0.7), "<= 2.5, 2nd 7"),
        ("launches differ by case", Noise(launches_by_case=0.7), ""),
        ("steps over the sizes", Noise(steps=True), "<= 1, 1st 3"),
        ("sessions 1.5, launches 0.3", Noise(session=0.015, launch=0.003), "<= 2.5, 1st 3"),
        ("ticks of 1 us", Noise(tick_s=1e-6), "<= 0.7"),
        ("1 % common to all", Noise(shared=0.01), "<= 2, worst 3.5"),
    ):
        yield Regime(
            name=f"unchanged, {name}: red", noise=noise, count=_unchanged, wanted=wanted, share=1
        )


def _of_scattered(run: Run) -> dict[str, Any]:
    last = run.sessions[5]
    return {"named": last.red[run.devices.chosen], "NO_VERDICT": last.noisy}


def _of_faster(run: Run) -> dict[str, Any]:
    later = run.sessions[5:]
    named = np.stack([one.improved[:, _LARGE] for one in later])
    return {"red": np.stack([one.failed for one in later]), "named": named}


def _crept(one: bool) -> Loss:
    return lambda session, devices: 0.01 / 7 * session * (devices.chosen if one else 1.0)


def _text(noise: Noise) -> str:
    return f"{100 * noise.session:g}/{100 * noise.launch:g}"


REGIMES = (*_lasting(), *_noisy(), *_unchanged_regimes(), *_one_session(), *_courses())


def rows(devices: int, seed: int, only: Collection[str] = ()) -> Iterator[str]:
    """Yield the table; rows of losses have half as many devices as those of unchanged sessions."""
    yield row("regime", "shares in % (95 %)", "wanted, %")
    yield row(*["---"] * 3)
    for number, regime in enumerate(REGIMES):
        if only and not any(one in regime.name for one in only):
            continue
        count = max(1, devices // regime.share)
        found = regime.count(regime.run(count, (seed, number)))
        texts = (f"{name} {_share(values)}" for name, values in found.items())
        yield row(regime.name, "; ".join(texts), regime.wanted)


def _share(values: Array) -> str:
    if not values.size:
        return "none"
    hits, among = int(values.sum()), int(values.size)
    lower, upper = map(percent, wilson(hits, among))
    return f"{percent(hits / among)} ({lower} to {upper}; {among})".replace(" %", "")
