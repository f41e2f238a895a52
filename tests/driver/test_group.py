"""Groups of workers: all answer, or one's end is the end of all, and no process is left."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from busbw import wire
from busbw.driver import Bundle, Group, LocalStart, Place, Role, Worker, local_places, roles_of
from busbw.driver.places import free_ports
from busbw.model import Failure, FailureKind, LaunchId

from .processes import processes, wait_until
from .scripts import KEY, PLAN, case, starter

LONG_S = 60.0
SHORT_S = 0.4
ROLES = roles_of({"chief": 1, "worker": 2, "ps": 1})
WORKER_1 = Role(task="worker", index=1)
REQUEST = {
    "request": "measure",
    "case": wire.to_json(case(1024)),
    "plan": wire.to_json(PLAN),
    "key": wire.to_json(KEY),
}


def start(bundle: Bundle, **then: str) -> Callable[[Place], Worker]:
    """Starts fake workers; `then` has what befalls a role in mid-case: ``worker1="kill"``."""

    def started(place: Place) -> Worker:
        event = then.get(f"{place.role.task}{place.role.index}", "")
        begin = starter(cases=[{"then": event}])
        return LocalStart(starter=begin, bundle=bundle, launch=LaunchId.parse("1"))(place)

    return started


def group(bundle: Bundle, **then: str) -> Group:
    """A group of fake workers that have all said that they are ready."""
    found = Group(local_places(ROLES), start(bundle, **then))
    assert not isinstance(found.ready(LONG_S), Failure)
    return found


def failure(answer: object) -> Failure:
    """The answer, which must be a Failure."""
    assert isinstance(answer, Failure)
    return answer


def all_of(request: dict[str, Any]) -> dict[Role, dict[str, Any]]:
    return dict.fromkeys(ROLES, request)


def test_one_answer_is_made_of_all_answers(bundle: Bundle) -> None:
    with group(bundle) as members:
        answers = members.ask(all_of(REQUEST), LONG_S, "measuring")
        assert not isinstance(answers, Failure)
        assert {role.name: name for role, (name, _) in answers.items()} == {
            "chief 0": "Run",
            "worker 0": "Run",
            "worker 1": "Run",
            "ps 0": "Run",
        }
        assert answers[WORKER_1][1]["launch"] == "1.worker1"
        assert len(processes(bundle.path)) == 4
    assert not processes(bundle.path)


def test_one_that_is_killed_fails_the_request_for_all_long_before_the_deadline(
    bundle: Bundle,
) -> None:
    hanging = {"chief0": "hang", "worker0": "hang", "worker1": "kill", "ps0": "hang"}
    begun_s = time.monotonic()
    with group(bundle, **hanging) as members:
        found = failure(members.ask(all_of(REQUEST), LONG_S, "measuring"))
    assert time.monotonic() - begun_s < LONG_S
    assert found.kind is FailureKind.KILLED
    assert found.message == "worker 1: the worker was killed (SIGKILL) while measuring"
    assert found.launch.text == "1.worker1"
    assert "the script says kill" in found.log
    assert not processes(bundle.path)


def test_kill_9_from_outside_is_seen_though_that_one_was_not_asked(bundle: Bundle) -> None:
    chief = Role(task="chief")
    with group(bundle, chief0="hang") as members:
        server = members.members[Role(task="ps")]
        timer = threading.Timer(SHORT_S, os.kill, (server.pid, signal.SIGKILL))
        timer.start()
        found = failure(members.ask({chief: REQUEST}, LONG_S, "training"))
        timer.join()
    assert found.message == "ps 0: the worker was killed (SIGKILL) while training"
    assert not processes(bundle.path)


def test_one_that_is_silent_ends_the_request_at_the_deadline_with_its_stack(
    bundle: Bundle,
) -> None:
    with group(bundle, worker1="hang") as members:
        found = failure(members.ask(all_of(REQUEST), 3.0, "measuring"))
        assert not members.members
    assert found.kind is FailureKind.TIMEOUT
    assert found.message == "worker 1: the worker did not answer within 3 s while measuring"
    assert 'fake.py", line' in found.log
    assert not processes(bundle.path)


def test_a_failure_that_one_answers_ends_the_others_that_wait_for_it(bundle: Bundle) -> None:
    with group(bundle, worker0="hang", worker1="out_of_memory") as members:
        found = failure(members.ask(all_of(REQUEST), LONG_S, "measuring"))
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.message.startswith("worker 1: RESOURCE_EXHAUSTED")
    assert not processes(bundle.path)


def test_who_died_is_named_and_not_who_complains_of_it_first(bundle: Bundle) -> None:
    with group(bundle, chief0="out_of_memory", worker0="hang", worker1="kill") as members:
        found = failure(members.ask(all_of(REQUEST), LONG_S, "measuring"))
    assert found.message.startswith("worker 1: the worker was killed")


def test_one_that_cannot_start_leaves_none_of_the_others(bundle: Bundle) -> None:
    def started(place: Place) -> Worker:
        python = "/bin/false" if place.role == WORKER_1 else starter().python
        return LocalStart(starter=starter(python), bundle=bundle, launch=LaunchId.parse("1"))(place)

    with Group(local_places(ROLES), started) as members:
        found = failure(members.ready(LONG_S))
    assert found.message == "worker 1: the worker ended with exit code 1 while starting"
    assert not processes(bundle.path)


def test_a_start_that_raises_leaves_none_of_those_that_were_started(bundle: Bundle) -> None:
    def started(place: Place) -> Worker:
        python = "/no/such/python" if place.role == WORKER_1 else starter().python
        return LocalStart(starter=starter(python), bundle=bundle, launch=LaunchId.parse("1"))(place)

    with pytest.raises(FileNotFoundError):
        Group(local_places(ROLES), started)
    assert not processes(bundle.path)


def test_an_interrupt_leaves_no_member(bundle: Bundle) -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    members = group(bundle)
    members._clock = interrupted
    with pytest.raises(KeyboardInterrupt):
        members.ask(all_of(REQUEST), LONG_S, "measuring")
    assert wait_until(lambda: not processes(bundle.path), 5)


def test_a_group_that_is_over_cannot_be_asked(bundle: Bundle) -> None:
    with group(bundle, worker1="kill") as members:
        failure(members.ask(all_of(REQUEST), LONG_S, "measuring"))
        with pytest.raises(ValueError, match="there is no chief 0 in this group"):
            members.ask(all_of(REQUEST), LONG_S, "measuring")


def test_killing_a_group_twice_leaves_no_descriptor_open(bundle: Bundle) -> None:
    before = len(os.listdir("/proc/self/fd"))
    members = Group(local_places(ROLES), start(bundle))
    members.kill()
    members.kill()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_place_tells_its_role_and_the_addresses_of_all() -> None:
    places = local_places(ROLES)
    assert [place.role.name for place in places] == ["chief 0", "worker 0", "worker 1", "ps 0"]
    config = json.loads(places[2].environment["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert {task: len(found) for task, found in config["cluster"].items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 1,
    }
    assert len({one for found in config["cluster"].values() for one in found}) == 4


def test_free_ports_differ_and_are_above_the_reserved_ones() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert min(ports) >= 1024
