"""`busbw find-slow`: hosts that an ssh reaches, the fake framework, and one of them slow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from busbw.extensions.stragglers.answer import DOCUMENT
from busbw.worker.backends.fake.backend import VARIABLE
from tests.helpers import ssh
from tests.helpers.command_line import ROOT, Answer, command
from tests.helpers.sweep import sweep

pytestmark = [pytest.mark.sessions, pytest.mark.workers]

FOUR = "one,two,three,four"


class Cluster:
    """Hosts whose times the script has, and the folder of what is written."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        there = ssh.written(folder / "programs")
        environment.setenv("PATH", f"{there}:{os.environ['PATH']}")
        self.folder, self._environment = folder, environment
        self.results, self.good = folder / "answer.json", folder / "good"

    def finds(self, *options: str, on: str = FOUR, **script: Any) -> Answer:
        self._environment.setenv(VARIABLE, json.dumps({"latency_s": 1e-4, **script}))
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
def test_of_hosts_that_are_alike_nobody_is_named(cluster: Cluster) -> None:
    found = cluster.finds()
    assert found.code == 0
    assert "nobody is slow: a loss of 5 % in all-reduce 64K, 5 % in all-reduce 16M" in found.out
    assert found.out.startswith("4 hosts, 7 rounds, ")
    assert cluster.good.read_text() == "one\ntwo\nthree\nfour\n"
    assert cluster.document["document"] == DOCUMENT
    assert len(cluster.document["groups"]) == 6


def test_a_slow_host_is_named_and_left_out_of_the_good_ones(cluster: Cluster) -> None:
    nights = cluster.folder / "nights"
    nights.mkdir()
    before = {"document": DOCUMENT, "date": "2026-11-03", "accused": [{"hosts": ["three"]}]}
    (nights / "1.json").write_text(json.dumps(before))
    files = (f"--{one}={cluster.folder}/{one}" for one in ("metrics", "page"))
    found = cluster.finds("--payloads=64K", f"--earlier={nights}", *files, **_slow("three"))
    assert found.code == 1
    assert "host three: " in found.out
    assert found.out.endswith("; named since 2026-11-03\n")
    assert "busbw_slow_anybody 1.0" in (cluster.folder / "metrics").read_text()
    assert "host three: " in (cluster.folder / "page").read_text()
    (accused,) = cluster.document["accused"]
    assert accused["hosts"] == ["three"]
    assert accused["ratio"] > 1.9
    assert cluster.good.read_text() == "one\ntwo\nfour\n"


def _slow(host: str) -> dict[str, Any]:
    return {"hosts": {host: {"latency_s": 1e-3, "gb_per_s": 2}}}


@pytest.mark.exhaustive
@pytest.mark.parametrize("then", ["kill", "exit"])
def test_a_host_whose_processes_die_is_named_and_the_rest_is_measured(
    cluster: Cluster, then: str
) -> None:
    options = ("--payloads=64K", "--least=3x")
    found = cluster.finds(*options, on="one,two,three,four,five", **_dying("two", then))
    assert found.code == 1
    assert "host two: no answer, with several partners: " in found.out
    assert list(cluster.document["dead"]) == ["two"]
    assert cluster.document["accused"] == []
    assert cluster.good.read_text() == "one\nthree\nfour\nfive\n"


def _dying(host: str, then: str) -> dict[str, Any]:
    return {"hosts": {host: {"cases": [{"then": then}]}}}


@pytest.mark.parametrize("then", sweep(["kill", "hang"]))
def test_a_host_that_dies_or_hangs_after_the_pairs_is_named(cluster: Cluster, then: str) -> None:
    dying = {"two": {"chips": {"then": then}}}
    found = cluster.finds("--payloads=64K", "--case-timeout=4", ranks=4, hosts=dying)
    assert found.code == 1
    assert "host two: no answer" in found.out
    assert "nobody is slow" not in found.out
    assert cluster.good.read_text() == "one\nthree\nfour\n"


@pytest.mark.exhaustive
def test_a_slow_chip_is_named_with_its_host(cluster: Cluster) -> None:
    slow = {"two": {"chips": {"slower": {"1": 1.3}}}}
    found = cluster.finds("--payloads=64K", ranks=4, hosts=slow)
    assert found.code == 1
    assert "chip 5 of host two: computing takes 1.30 x as long as the others' (p <= " in found.out
    assert cluster.good.read_text() == "one\nthree\nfour\n"


@pytest.mark.exhaustive
def test_of_a_tpu_slice_chips_are_measured_and_no_pairs_of_hosts(cluster: Cluster) -> None:
    chips = {"device": "tpu", "ranks": 4}
    slow = {"two": {"chips": {"slower": {"1": 1.3}}}}
    found = cluster.finds("--device=tpu", on="one,two", **chips, hosts=slow)
    assert found.code == 1
    assert found.out.startswith("2 hosts, 2 rounds, ")
    assert "chip 5 of host two: computing takes 1.30 x as long as the others' (p <= " in found.out
    assert cluster.document["groups"] == []
    assert cluster.good.read_text() == "one\n"


@pytest.mark.exhaustive
def test_of_a_tpu_slice_it_says_what_would_have_been_named(cluster: Cluster) -> None:
    found = cluster.finds("--device=tpu", on="one,two", device="tpu", ranks=4)
    assert found.code == 0
    assert "nobody is slow: a loss of 5 % in computing, 5 % in copying would have been" in found.out


@pytest.mark.exhaustive
def test_of_two_chips_none_is_called_well(cluster: Cluster) -> None:
    found = cluster.finds("--device=tpu", on="one,two", device="tpu", ranks=4, chips={"count": 1})
    assert found.code == 1
    assert "find-slow: there are too few chips to tell a slow one" in found.err


@pytest.mark.exhaustive
def test_a_tpu_slice_of_which_a_host_does_not_answer_is_an_error(cluster: Cluster) -> None:
    dying = {"two": {"cases": [{"then": "exit"}]}}
    found = cluster.finds("--device=tpu", on="one,two", device="tpu", ranks=4, hosts=dying)
    assert found.code == 1
    assert "find-slow: worker 1 on two: " in found.err


@pytest.mark.exhaustive
def test_where_no_pair_can_be_measured_nobody_is_blamed(cluster: Cluster) -> None:
    found = cluster.finds(cases=[{"then": "unavailable"}])
    assert found.code == 1
    assert "find-slow: no such algorithm here" in found.err
    assert not cluster.results.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--hosts=one,two,three"], "3 hosts: expected 4 or more: of fewer a slow host"),
        (["--hosts=a,b,c,d", f"--earlier={ROOT}/docs"], "schema.json: it is no answer of this"),
        ([], "there are no hosts; expected --hosts=LIST or --cluster=ADDRESS"),
        (["--hosts=one,two,three,four", "--least=0"], "--least: '0'; accepted is a loss such as"),
        (["--hosts=one,one"], "'one' is there twice"),
        (["--hosts=a,b,c,d", "--payloads=1Q"], "'1Q' is not a size"),
        (["--hosts=a,b,c,d", "--processes=6"], "4 hosts cannot share --processes=6 equally"),
    ],
)
def test_what_is_asked_wrongly_is_a_usage_error(options: list[str], sentence: str) -> None:
    command("find-slow", *options).refuses(sentence)


def test_a_file_of_somebody_else_s_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("do not lose this\n")
    for option in ("--results", "--write-good", "--metrics", "--page"):
        refused = command("find-slow", "--hosts=a,b,c,d", f"{option}={tmp_path}/notes")
        refused.refuses(f"{option}: ")
    assert (tmp_path / "notes").read_text() == "do not lose this\n"


def test_a_host_that_is_not_reached_is_an_error_that_names_it(cluster: Cluster) -> None:
    found = cluster.finds(on=f"one,two,three,{ssh.UNREACHED}")
    assert found.code == 1
    assert "unreached: ssh: connect to host unreached port 22: No route to host" in found.err
