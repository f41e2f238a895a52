"""`busbw estimate`: figures of the documents, known models and links, placements and refusals.

"tensorflow分布式" (Distributed TensorFlow) is the document of the four machines with a network of
1 Gbit/s.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.command_line import ROOT, asked_here

GIGABIT = ("--gradient-bytes=553.36MB", "--ranks=4", "--bandwidth=125MB/s", "--compute=0.55s")
LINKED = ("--ranks=4", "--bandwidth=1gbe")


def document(*arguments: str) -> Any:
    """Return the JSON document of a question that is answered."""
    answer = asked_here("estimate", *arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    return answer.document


def row(method: str, hosts: int, *arguments: str) -> Any:
    (match,) = (
        row
        for row in document(*arguments)["estimates"]
        if (row["method"], row["hosts"]) == (method, hosts)
    )
    return match


def test_estimate_reproduces_the_published_efficiency_of_four_machines_at_1_gbit() -> None:
    ring = row("ring all-reduce", 1, *GIGABIT, "--want-efficiency=0.9")
    assert ring["efficiency"] == pytest.approx(0.0765, abs=5e-5)
    assert ring["step_s"] == pytest.approx(7.19, abs=0.005)
    assert ring["communication_s"] == pytest.approx(6.64, abs=0.005)
    assert ring["needed_bytes_per_s"] / 1e6 == pytest.approx(13582, abs=0.5)
    table = asked_here("estimate", *GIGABIT, "--want-efficiency=0.9").out
    (line,) = (line for line in table.splitlines() if line.startswith("ring all-reduce"))
    for text in ("830.04", "7.19 s", "0.0765", "13582.5", "intra: 125MB/s"):
        assert text in line


@pytest.mark.parametrize("method", ["ring all-reduce", "naive ring all-reduce"])
def test_the_needed_bandwidth_that_estimate_prints_gives_the_requested_efficiency(
    method: str,
) -> None:
    options = ("--model=vgg-16", "--ranks=8", "--hosts=2", "--intra=nvlink-2,5us", "--compute=2s")
    before = row(method, 2, *options, "--inter=1gbe,1ms", "--want-efficiency=0.8")
    assert before["bottleneck"] == "inter: 1gbe"
    after = row(method, 2, *options, f"--inter={before['needed_bytes_per_s']:.0f}B/s,1ms")
    assert after["efficiency"] == pytest.approx(0.8, rel=1e-6)


def test_estimate_prints_no_needed_bandwidth_if_latency_alone_exceeds_the_available_time() -> None:
    slow = ("--gradient-bytes=1MB", "--ranks=4", "--bandwidth=1GB/s,1s", "--compute=1s")
    assert row("ring all-reduce", 1, *slow, "--want-efficiency=0.5")["needed_bytes_per_s"] is None


def test_estimate_lists_each_method_for_each_number_of_hosts_and_names_the_slowest_link() -> None:
    rows = document(
        *("--parameters=25M", "--ranks=8", "--hosts=2,8", "--intra=nvlink-2", "--inter=10gbe,20us")
    )["estimates"]
    methods = {hosts: {row["method"] for row in rows if row["hosts"] == hosts} for hosts in (1, 8)}
    assert methods[1] == methods[8]
    assert len(methods[1]) == 5
    for estimate in rows:
        slowest = "intra: nvlink-2" if estimate["hosts"] == 1 else "inter: 10gbe"
        assert estimate["bottleneck"] == slowest
    times_s = [estimate["communication_s"] for estimate in rows]
    assert times_s == sorted(times_s)


def test_estimate_skips_a_number_of_hosts_if_no_option_describes_their_link() -> None:
    answer = document("--parameters=1M", "--ranks=4", "--hosts=2", "--intra=pcie-3")
    assert {row["hosts"] for row in answer["estimates"]} == {1}
    (note,) = answer["notes"]
    assert "2 hosts: expected --inter" in note


def test_the_option_servers_of_estimate_sets_the_number_of_parameter_servers() -> None:
    rows = document("--gradient-bytes=1MB", *LINKED, "--servers=2,5")["estimates"]
    assert {row["method"]: row["server_bytes"] for row in rows if row["server_bytes"]} == {
        "parameter server, 2 dedicated": pytest.approx(4e6 / 2),
        "parameter server, 2 beside workers": pytest.approx(3e6 / 2),
        "parameter server, 5 dedicated": pytest.approx(4e6 / 5),
    }


@pytest.mark.parametrize(
    ("arguments", "payload_bytes"),
    [
        (["--model=resnet-50"], 25_583_592 * 4),
        (["--model=VGG-16", "--dtype=bfloat16"], 138_357_544 * 2),
        (["--model=dssm"], 6e6),
        (["--parameters=138.36M"], 553.44e6),
        (["--parameters=1000", "--dtype=float64"], 8000),
        (["--gradient-bytes=25MiB"], 25 * 2**20),
        (["--gradient-bytes=4096B"], 4096),
    ],
)
def test_estimate_prints_the_gradient_bytes_of_a_listed_model_or_of_a_number_of_parameters(
    arguments: list[str], payload_bytes: float
) -> None:
    answer = document(*arguments, "--ranks=2", "--bandwidth=1gbe")
    assert answer["payload_bytes"] == pytest.approx(payload_bytes)


@pytest.mark.parametrize(
    ("text", "bytes_per_s", "latency_s"),
    [
        ("NVLink-1", 4 * 40e9 / 2, 0),
        ("63GiB/s", 63 * 2**30, 0),
        ("10Gbit/s,550ms", 1.25e9, 0.55),
        ("108660Mbit/s,5us", 13582.5e6, 5e-6),
    ],
)
def test_the_option_link_of_estimate_accepts_a_name_or_a_rate_with_or_without_latency(
    text: str, bytes_per_s: float, latency_s: float
) -> None:
    link = document("--parameters=3", "--ranks=2", f"--intra={text}")["links"]["intra"]
    assert link["bytes_per_s"] == pytest.approx(bytes_per_s)
    assert link["latency_s"] == pytest.approx(latency_s)


def choices(begin: str, *arguments: str) -> list[str]:
    """Return the names that an error message lists after `begin`."""
    message = asked_here("estimate", *arguments).err.partition(begin)[2]
    return re.findall(r"[\w-]+", message.partition(", got ")[0])


def rate_of(name: str) -> float:
    """Return the bytes per second of a known link."""
    links = document("--parameters=3", "--ranks=2", f"--intra={name}")["links"]
    return float(links["intra"]["bytes_per_s"])


def test_the_documentation_of_studies_lists_every_model_and_every_link_of_estimate() -> None:
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split("|") for line in page.splitlines() if line.startswith("|")]
    rows = {name.strip(): [value.strip() for value in values] for name, *values in cells}
    for name in choices("choose from", "--model=none", *LINKED):
        assert rows[name][0] == f"{document(f'--model={name}', *LINKED)['payload_bytes'] // 4:,}"
    links = choices("a link of", "--parameters=3", "--ranks=4", "--bandwidth=none")
    rates = {name: rate_of(name) for name in links}
    for name in links:
        if not name.startswith("measured"):
            assert float(rows[name][0]) == pytest.approx(rates[name] / 1e9, rel=1e-4)
    for place in ("intra", "inter"):
        listed = rows[f"measured-{place}-1 to -8"][1].removesuffix(" MB/s").split(", ")
        measured = [rates[name] for name in links if name.startswith(f"measured-{place}")]
        assert [float(rate) * 1e6 for rate in listed] == measured


def test_the_estimate_command_ends_without_an_error_message_if_its_output_pipe_is_closed() -> None:
    """Write to a pipe that has no reader any more, as in `| head`."""
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


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("required", LINKED),
        ("not allowed with", ["--model=vgg-16", "--parameters=3", *LINKED]),
        ("'-3'", ["--parameters=-3", *LINKED]),
        ("expected a size", ["--gradient-bytes=1e20MB", *LINKED]),
        ("expected a size", ["--gradient-bytes=16M", *LINKED]),
        ("expected a size", ["--gradient-bytes=5,3MB", *LINKED]),
        ("choose from 'resnet-50'", ["--model=gpt-17", *LINKED]),
        ("--dtype", ["--gradient-bytes=5MB", "--dtype=float16", *LINKED]),
        ("number from 2 to", ["--parameters=3", "--ranks=1", "--bandwidth=1gbe"]),
        ("to 10000000, got", ["--parameters=3", f"--ranks={10**400}", "--bandwidth=1gbe"]),
        ("required: --ranks", ["--parameters=3", "--bandwidth=1gbe"]),
        ("expected a divisor of 4", ["--parameters=3", *LINKED, "--hosts=3"]),
        ("from 1 to", ["--parameters=3", *LINKED, "--hosts=0"]),
        ("expected --intra (or --bandwidth)", ["--parameters=3", "--ranks=4", "--inter=1gbe"]),
        ("expected a rate", ["--parameters=3", "--ranks=4", "--bandwidth=125"]),
        ("expected a rate", ["--parameters=3", "--ranks=4", "--bandwidth=quick"]),
        ("expected a latency", ["--parameters=3", "--ranks=4", "--intra=1gbe,-5us"]),
        ("expected a time", ["--parameters=3", *LINKED, "--compute=0s"]),
        ("needs --compute", ["--parameters=3", *LINKED, "--want-efficiency=0.5"]),
        (
            "expected an efficiency below 1",
            ["--parameters=3", *LINKED, "--compute=1s", "--want-efficiency=1"],
        ),
        ("from 1 to", ["--parameters=3", *LINKED, "--servers=0"]),
        ("unrecognized arguments: --figure=x.svg", ["--parameters=3", *LINKED, "--figure=x.svg"]),
    ],
)
def test_invalid_options_of_estimate_are_usage_errors(words: str, arguments: list[str]) -> None:
    asked_here("estimate", *arguments).refuses(words)
