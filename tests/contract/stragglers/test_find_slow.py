"""`busbw find-slow` over hosts that a fake ssh reaches, one of which is slow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ssh
from tests.helpers.command_line import Answer, command
from tests.helpers.sweep import sweep

pytestmark = [pytest.mark.sessions, pytest.mark.workers]

FOUR = "one,two,three,four"


class Cluster:
    """Hosts with times from a script, and the files that find-slow writes."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        programs = ssh.written(folder / "programs")
        environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        self._environment = environment
        self.results, self.good = folder / "answer.json", folder / "good"

    def find_slow(self, *options: str, on: str = FOUR, **script: Any) -> Answer:
        self._environment.setenv("BUSBW_FAKE", json.dumps({"latency_s": 1e-4, **script}))
        return command(
            *("find-slow", f"--hosts={on}", f"--host-python={ssh.python()}"),
            *("--framework=fake", "--device=cpu", f"--results={self.results}"),
            *(f"--write-good={self.good}", *options),
        )

    @property
    def document(self) -> Any:
        return json.loads(self.results.read_text())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


@pytest.mark.exhaustive
def test_find_slow_names_no_host_if_all_hosts_are_equally_fast(cluster: Cluster) -> None:
    answer = cluster.find_slow()
    assert answer.code == 0
    assert (
        "is slow: a loss of 5 % in all-reduce 64K, 5 % in all-reduce 64K of a link, "
        "5 % in all-reduce 16M, 5 % in all-reduce 16M of a link" in answer.out
    )
    assert answer.out.startswith("4 hosts, 8 rounds\n")
    assert cluster.good.read_text() == "one\ntwo\nthree\nfour\n"
    assert cluster.document["document"] == "busbw find-slow"
    assert len(cluster.document["times"]) == 6


def test_find_slow_names_a_slow_host_and_does_not_list_this_host_as_good(
    cluster: Cluster,
) -> None:
    slow = {"three": {"latency_s": 1e-3, "gb_per_s": 2}}
    answer = cluster.find_slow("--payloads=64K", hosts=slow)
    assert answer.code == 1
    assert "SLOW host three: all-reduce 64K takes " in answer.out
    assert {tuple(slow["hosts"]) for slow in cluster.document["slow"]} == {("three",)}
    assert cluster.document["slow"][0]["ratio"] > 1.9
    assert cluster.good.read_text() == "one\ntwo\nfour\n"


def test_find_slow_is_red_and_says_that_hosts_fall_into_two_groups_if_half_of_them_are_slow(
    cluster: Cluster,
) -> None:
    slow = {"latency_s": 1e-3}
    answer = cluster.find_slow("--payloads=64K", hosts={"three": slow, "four": slow})
    assert answer.code == 1
    assert "FAST link one - two: all-reduce 64K takes 0." in answer.out
    assert "fall into two groups, and half of the hosts or more may be slow" in answer.out
    assert [fast["hosts"] for fast in cluster.document["fast"]] == [["one", "two"]] * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("then", ["kill", "exit"])
def test_find_slow_names_a_host_whose_processes_die_and_measures_all_other_hosts(
    cluster: Cluster, then: str
) -> None:
    dying = {"two": {"cases": [{"then": then}]}}
    options = ("--payloads=64K", "--least=200%")
    answer = cluster.find_slow(*options, on="one,two,three,four,five", hosts=dying)
    assert answer.code == 1
    assert "host two: no answer: " in answer.out
    assert [silent["hosts"] for silent in cluster.document["unreachable"]] == [["two"]]
    assert cluster.document["slow"] == []
    assert cluster.good.read_text() == "one\nthree\nfour\nfive\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("then", sweep(["kill", "hang"]))
def test_find_slow_names_a_host_that_dies_or_hangs_after_the_pairs_of_hosts_were_measured(
    cluster: Cluster, then: str
) -> None:
    dying = {"two": {"chips": {"then": then}}}
    answer = cluster.find_slow("--payloads=64K", "--case-timeout=4", ranks=4, hosts=dying)
    assert answer.code == 1
    assert "host two: no answer" in answer.out
    assert "is slow" not in answer.out
    assert cluster.good.read_text() == "one\nthree\nfour\n"


@pytest.mark.exhaustive
def test_find_slow_names_a_slow_chip_with_its_host(cluster: Cluster) -> None:
    slow = {"two": {"chips": {"compute_s": [1, 1.3, 1, 1]}}}
    answer = cluster.find_slow("--payloads=64K", ranks=4, hosts=slow)
    assert answer.code == 1
    assert (
        "SLOW chip 5 of host two: computing takes 1.30x the median of the others (p <= "
        in answer.out
    )
    assert cluster.good.read_text() == "one\nthree\nfour\n"


@pytest.mark.exhaustive
def test_find_slow_measures_the_chips_of_a_tpu_slice_in_place_of_pairs_of_hosts(
    cluster: Cluster,
) -> None:
    slow = {"two": {"chips": {"compute_s": [1, 1.3, 1, 1]}}}
    answer = cluster.find_slow("--device=tpu", on="one,two", device="tpu", ranks=4, hosts=slow)
    assert answer.code == 1
    assert answer.out.startswith("2 hosts, 2 rounds\n")
    assert (
        "SLOW chip 5 of host two: computing takes 1.30x the median of the others (p <= "
        in answer.out
    )
    assert cluster.document["times"] == {}
    assert cluster.good.read_text() == "one\n"


@pytest.mark.exhaustive
def test_find_slow_says_how_large_a_loss_of_a_healthy_tpu_slice_would_have_been_found(
    cluster: Cluster,
) -> None:
    answer = cluster.find_slow("--device=tpu", on="one,two", device="tpu", ranks=4)
    assert answer.code == 0
    assert "is slow: a loss of 5 % in computing, 5 % in copying would have been" in answer.out


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"chips": {"compute_s": [1]}}, "expected 3 chips or more, to tell a slow one"),
        ({"hosts": {"two": {"chips": {"then": "kill"}}}}, "worker 1 on two: "),
    ],
)
def test_find_slow_gives_an_error_for_a_tpu_slice_that_cannot_be_measured(
    cluster: Cluster, script: dict[str, Any], reason: str
) -> None:
    answer = cluster.find_slow("--device=tpu", on="one,two", device="tpu", ranks=4, **script)
    assert answer.code == 1
    assert f"find-slow: {reason}" in answer.err


@pytest.mark.exhaustive
def test_find_slow_gives_an_error_and_no_results_if_no_pair_of_hosts_can_be_measured(
    cluster: Cluster,
) -> None:
    answer = cluster.find_slow(cases=[{"then": "unavailable"}])
    assert answer.code == 1
    assert "find-slow: no such algorithm here" in answer.err
    assert not cluster.results.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--hosts=one,two,three"], "expected 4 hosts or more"),
        (
            [],
            "expected 4 hosts or more (2 of a TPU slice, with --device=tpu)",
        ),
        (
            ["--hosts=one,two,three,four", "--least=0"],
            "argument --least: expected a percentage such as 25%",
        ),
        (["--hosts=a,b,c,d", "--payloads=1Q"], "'1Q' is not a size"),
        (["--hosts=a,b,c,d", "--processes=6"], "4 hosts cannot share --processes=6 equally"),
    ],
)
def test_invalid_options_of_find_slow_are_usage_errors(options: list[str], sentence: str) -> None:
    command("find-slow", *options).refuses(sentence)


def test_find_slow_does_not_overwrite_a_file_that_busbw_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("do not lose this\n")
    for option in ("--results", "--write-good"):
        answer = command("find-slow", "--hosts=a,b,c,d", f"{option}={tmp_path}/notes")
        answer.refuses(f"{option}: ")
    assert (tmp_path / "notes").read_text() == "do not lose this\n"


def test_find_slow_names_a_host_that_ssh_does_not_reach(cluster: Cluster) -> None:
    answer = cluster.find_slow(on=f"one,two,three,{ssh.UNREACHED}")
    assert answer.code == 1
    assert "unreached: ssh: connect to host unreached port 22: No route to host" in answer.err
