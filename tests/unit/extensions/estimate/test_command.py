"""`python -m busbw estimate`: figures of documents, placements, methods, steps, refusals.

"tensorflow分布式" is the document of the four machines with a network of 1 Gbit/s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.model.words import MIB
from tests.helpers.command_line import ROOT, Answer, asked_here, command


def estimate(*arguments: str | Path) -> Answer:
    """In this process, since most of these tests are many questions."""
    return asked_here("estimate", *arguments)


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    """The estimates, best first, of a question that is answered."""
    answer = estimate(*arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    found: list[dict[str, Any]] = answer.document["estimates"]
    return found


GIGABIT = ("--gradient-bytes=553.36MB", "--ranks=4", "--bandwidth=125MB/s", "--compute=0.55s")
SMALL = ("--gradient-bytes=1MB", "--ranks=4", "--bandwidth=1GB/s")
LATE = (*SMALL[:2], "--bandwidth=1GB/s,1ms")


def row(method: str, hosts: int, *arguments: str | Path) -> dict[str, Any]:
    named = [one for one in rows(*arguments) if one["method"] == method]
    (found,) = [one for one in named if one["hosts"] == hosts]
    return found


def ring_of(*arguments: str | Path) -> dict[str, Any]:
    return row("ring all-reduce", 1, *arguments)


def test_distributed_tensorflow_four_machines_at_a_gigabit_have_0_0765_and_7_19_s() -> None:
    ring = ring_of(*GIGABIT)
    assert ring["efficiency"] == pytest.approx(0.0765, abs=5e-5)
    assert ring["step_s"] == pytest.approx(7.19, abs=0.005)
    assert ring["communication_s"] == pytest.approx(6.64, abs=0.005)
    assert ring["traffic_bytes"] == pytest.approx(2 * 3 / 4 * 553.36e6)


def test_in_a_process_of_its_own_it_says_the_same_and_refuses_with_exit_code_2() -> None:
    answer = command("estimate", *GIGABIT, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.document["estimates"] == rows(*GIGABIT)
    command("estimate", *GIGABIT[1:], "--parameters=-3").refuses("'-3'")


def test_distributed_tensorflow_an_efficiency_of_0_9_needs_13582_mb_per_s() -> None:
    ring = ring_of(*GIGABIT, "--want-efficiency=0.9")
    assert ring["wanted_bytes_per_s"] / 1e6 == pytest.approx(13582, abs=0.5)
    table = estimate(*GIGABIT, "--want-efficiency=0.9").out
    (line,) = (one for one in table.splitlines() if one.startswith("ring all-reduce"))
    assert line.endswith("13582 MB/s")
    assert "7.19 s" in line and "0.0765" in line


def test_the_wanted_bandwidth_gives_the_wanted_efficiency() -> None:
    links = ("--ranks=8", "--hosts=2", "--intra=10GB/s,5us", "--bucket=25MiB", "--overlap=0.6")
    asked_for = ("--model=vgg-16", *links, "--compute=0.3s")
    before = row("hierarchical all-reduce", 2, *asked_for, "--inter=1gbe", "--want-efficiency=0.8")
    assert before["bottleneck"] == "inter: 1gbe"
    needed = f"--inter={before['wanted_bytes_per_s']:.0f}B/s"
    after = row("hierarchical all-reduce", 2, *asked_for, needed)
    assert after["efficiency"] == pytest.approx(0.8, rel=1e-6)


def test_the_rules_of_thumb_stand_beside_what_is_counted() -> None:
    naive = row("naive ring all-reduce", 1, *GIGABIT)
    assert naive["rule_of_thumb_s"] == pytest.approx(4 * 553.36 / 125)
    assert naive["communication_s"] == pytest.approx(6 * 553.36 / 125)
    assert ring_of(*GIGABIT)["rule_of_thumb_s"] == pytest.approx(553.36 / 125)


def test_the_best_comes_first() -> None:
    for more in ((), ("--hosts=2,4",), ("--compute=1ms", "--overlap=0.5")):
        found = rows(*LATE, *more)
        worth = [one["step_s"] or one["communication_s"] for one in found]
        assert worth == sorted(worth)


def test_each_placement_has_each_method_and_names_its_slowest_link() -> None:
    found = rows(
        "--parameters=25M", "--ranks=8", "--hosts=2,8", "--intra=nvlink-2", "--inter=10gbe,20us"
    )
    methods = {hosts: {one["method"] for one in found if one["hosts"] == hosts} for hosts in (1, 8)}
    assert methods[1] == methods[8]
    assert "halving-doubling all-reduce" in methods[1]
    for one in found:
        assert one["bottleneck"] == ("intra: nvlink-2" if one["hosts"] == 1 else "inter: 10gbe")


def test_a_method_that_a_placement_does_not_have_is_a_note() -> None:
    document = estimate(*SMALL[:1], "--ranks=6", "--hosts=3", "--bandwidth=1gbe", "--json").document
    assert [one for one in document["notes"] if "halving-doubling" in one and "3 hosts" in one]
    hosts = {one["hosts"] for one in document["estimates"] if "halving" in one["method"]}
    assert hosts == {1}


def test_a_placement_without_its_link_is_left_out_with_a_note() -> None:
    answer = estimate("--parameters=1M", "--ranks=4", "--hosts=2", "--intra=pcie-3", "--json")
    assert {one["hosts"] for one in answer.document["estimates"]} == {1}
    assert [one for one in answer.document["notes"] if "--inter" in one]


def test_servers_can_be_asked_for() -> None:
    names = {one["method"] for one in rows(*SMALL, "--servers=2,5")}
    assert {one for one in names if "server" in one} == {
        "parameter server, 2 dedicated",
        "parameter server, 2 beside workers",
        "parameter server, 5 dedicated",
    }
    server = row("parameter server, 2 dedicated", 1, *SMALL, "--servers=2")
    assert server["server_bytes"] == 4e6 / 2


def test_half_duplex_takes_a_ring_twice_as_long() -> None:
    full, half = (ring_of(*SMALL, *more) for more in ((), ("--half-duplex",)))
    assert half["communication_s"] == pytest.approx(2 * full["communication_s"])


def test_latency_counts_once_a_step_and_once_a_bucket() -> None:
    plain = ring_of(*SMALL)
    slow = ring_of(*LATE, "--bucket=100kB")
    assert slow["steps"] == 6 * 10
    assert slow["communication_s"] == pytest.approx(plain["communication_s"] + 6 * 10 * 1e-3)


def test_overlap_hides_up_to_its_share() -> None:
    # 1.5 ms of communication, 2 ms of computing.
    for share, step_s in (("0", 3.5e-3), ("0.5", 2.5e-3), ("1", 2e-3)):
        found = ring_of(*SMALL, "--compute=2ms", f"--overlap={share}")
        assert found["step_s"] == pytest.approx(step_s)
        assert found["efficiency"] == pytest.approx(2e-3 / step_s)


@pytest.mark.parametrize(
    ("arguments", "payload_bytes"),
    [
        (["--model=resnet-50"], 25_583_592 * 4),
        (["--model=VGG-16", "--dtype=bfloat16"], 138_357_544 * 2),
        (["--model=dssm"], 6e6),
        (["--model=llama-3-70b", "--dtype=bfloat16"], 70_553_706_496 * 2),
        (["--parameters=138.36M"], 553.44e6),
        (["--parameters=1000", "--dtype=float64"], 8000),
        (["--gradient-bytes=25MiB"], 25 * MIB),
        (["--gradient-bytes=4096"], 4096),
    ],
)
def test_gradients_are_counted_however_they_are_given(
    arguments: list[str], payload_bytes: float
) -> None:
    answer = estimate(*arguments, "--ranks=2", "--bandwidth=1gbe", "--json")
    assert answer.document["payload_bytes"] == pytest.approx(payload_bytes)


def test_shapes_of_a_file_are_counted_and_fill_buckets_from_the_last(tmp_path: Path) -> None:
    file = tmp_path / "shapes.json"
    file.write_text(json.dumps({"a": [512, 512], "b": [512], "c": []}))
    answer = estimate(
        f"--shapes={file}", "--ranks=2", "--bandwidth=1gbe", "--bucket=2000B", "--json"
    )
    assert answer.document["parameters"] == 512 * 512 + 512 + 1
    assert answer.document["buckets"] == 2
    assert answer.document["memory_bytes_per_parameter"] == {"sgd": 8, "momentum": 12, "adam": 16}


def test_a_reader_who_leaves_early_hears_no_complaint() -> None:
    """As `| head` does: the pipe has no reader any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "busbw", "estimate", *GIGABIT],
            stdout=writing,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


LINKED = ("--ranks=4", "--bandwidth=1gbe")


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("required", ["--ranks=4", "--bandwidth=1gbe"]),
        ("not allowed with", ["--model=vgg-16", "--parameters=3", *LINKED]),
        ("'-3'", ["--parameters=-3", *LINKED]),
        ("accepted is a number of parameters", ["--parameters=0", *LINKED]),
        ("from 1 to 1e+15", ["--gradient-bytes=1e20MB", *LINKED]),
        ("accepted is bytes with a unit", ["--gradient-bytes=16M", *LINKED]),
        ("expected one of resnet-50", ["--model=gpt-17", *LINKED]),
        ("--dtype says nothing", ["--gradient-bytes=5MB", "--dtype=float16", *LINKED]),
        ("from 2 to", ["--parameters=3", "--ranks=1", "--bandwidth=1gbe"]),
        ("from 2 to", ["--parameters=3", "--ranks=1e9", "--bandwidth=1gbe"]),
        ("how many --ranks", ["--parameters=3", "--bandwidth=1gbe"]),
        ("evenly over 3 hosts", ["--parameters=3", *LINKED, "--hosts=3"]),
        ("from 1 to", ["--parameters=3", *LINKED, "--hosts=0"]),
        ("say a link", ["--parameters=3", "--ranks=4"]),
        ("without --intra", ["--parameters=3", *LINKED, "--intra=1gbe"]),
        ("unrecognized arguments: --latency=1us", ["--parameters=3", *LINKED, "--latency=1us"]),
        ("needs --intra", ["--parameters=3", "--ranks=4", "--inter=1gbe"]),
        ("accepted is a rate", ["--parameters=3", "--ranks=4", "--bandwidth=125"]),
        ("names are nvlink-1, nv", ["--parameters=3", "--ranks=4", "--bandwidth=quick"]),
        ("accepted is a time", ["--parameters=3", "--ranks=4", "--intra=1gbe,-5us"]),
        ("accepted is a time", ["--parameters=3", *LINKED, "--compute=-1s"]),
        ("from 1e-09 to", ["--parameters=3", *LINKED, "--compute=0s"]),
        ("accepted is a time", ["--parameters=3", *LINKED, "--compute=1e9s"]),
        ("a share, from 0 to 1", ["--parameters=3", *LINKED, "--compute=1s", "--overlap=1.5"]),
        ("--overlap needs --compute", ["--parameters=3", *LINKED, "--overlap=0.5"]),
        ("needs --compute", ["--parameters=3", *LINKED, "--want-efficiency=0.5"]),
        (
            "an efficiency, from 1e-06 to 0.999999",
            ["--parameters=3", *LINKED, "--compute=1s", "--want-efficiency=1"],
        ),
        ("from 1 to", ["--parameters=3", *LINKED, "--servers=0"]),
        ("buckets are absurd", ["--gradient-bytes=1GB", *LINKED, "--bucket=1B"]),
        ("unrecognized arguments: --figure=x.svg", ["--parameters=3", *LINKED, "--figure=x.svg"]),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(says: str, arguments: list[str]) -> None:
    estimate(*arguments).refuses(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "expected an object"),
        ("{}", "expected an object"),
        ('{"w": 3}', "w: expected a list"),
        ('{"w": [2, -1]}', "w: expected a list of whole numbers above 0"),
        ('{"w": [2.5]}', "w: expected a list"),
        ('{"w": [1], "w": [2]}', "occurs twice"),
        ("{", "not JSON"),
        ('{"w": [' + ", ".join(["1" + "0" * 20] * 30) + "]}", "more than 1e+15 parameters"),
    ],
)
def test_shapes_that_are_none_are_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "shapes.json"
    file.write_text(text)
    estimate(f"--shapes={file}", "--ranks=2", "--bandwidth=1gbe").refuses(f"{file}:", says)
