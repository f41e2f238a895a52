"""Invalid replies of workers: the case fails with the reason, and the session goes on."""

from __future__ import annotations

import pytest

from tests.helpers.garbling import garbled, probe_reply, reply, run_reply
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

BAD = {
    "no JSON": (b"Segmentation fault\n", "1:1: not JSON"),
    "no object": (b"[]\n", "expected an object with a reply and a value"),
    "no value": (b'{"reply": "Run"}\n', "expected an object with a reply and a value"),
    "no UTF-8": (b'{"reply": "Run", "value": "\xff"}\n', "not UTF-8"),
    "no known name": (reply("Walk", None), "expected Run or Failure, got 'Walk'"),
    "a name that is none": (reply({"a": 1}, None), "reply.reply: expected a string"),  # type: ignore[arg-type]
    "another reply": (reply("probe", {}), "expected Run or Failure, got 'probe'"),
    "a part of it": (reply("Run", {"launch": "1"}), "Run.iterations: missing"),
    "a word for a time": (run_reply(samples_s=["soon"]), "Run.samples_s[0]: expected a number"),
    "NaN": (run_reply(samples_s=[float("nan")]), "Run.samples_s[0]: expected a finite number"),
    "beyond all numbers": (
        run_reply(samples_s=[0.5]).replace(b"0.5", b"1e400"),
        "Run.samples_s[0]: expected a finite number",
    ),
    "no sample": (run_reply(samples_s=[]), "Run.samples_s: expected one or more"),
    "a time of 0": (
        run_reply(samples_s=[0.0]),
        "Run.samples_s[0]: expected 1e-12 to 1e+06 seconds",
    ),
    "a time below 0": (run_reply(samples_s=[-1.0]), "Run.samples_s[0]: expected "),
    "true for a number": (run_reply(iterations=True), "Run.iterations: expected a whole number"),
    "no clock": (
        run_reply(clock="sundial"),
        "Run.clock: expected one of host, dispatch, device, got 'sundial'",
    ),
    "5000 digits": (
        b'{"reply": 1' + b"0" * 5000 + b"}\n",
        "more than 4300 digits",
    ),
    "200,000 brackets": (b"[" * 200_000 + b"\n", "nested too deeply"),
    "half a character": (run_reply(clock="\ud800"), "Run.clock: expected one of"),
    "two replies": (run_reply() * 2, "more than one"),
    "a line without end": (b"x" * (17 * 2**20), "more than 16777216 bytes"),
}


@pytest.mark.parametrize("case", sweep(BAD))
def test_an_invalid_reply_of_a_worker_fails_only_its_case(folder: Folder, case: str) -> None:
    raw, says = BAD[case]
    python = garbled(folder, "1.fake", "Run", raw)
    ran = folder.run("--payloads=1M,2M", f"--python=fake={python}", exit_code=1)
    assert sorted(ran.outcomes.values()) == ["FAILED", "NO_BASELINE"]
    (failed,) = (size for size, outcome in ran.outcomes.items() if outcome == "FAILED")
    text = ran.case(failed)["text"]
    assert text.startswith("crashed in 1 of 1 launches: the worker's reply is invalid (")
    assert says in text
    assert "INTERNALERROR" not in ran.text


@pytest.mark.exhaustive
def test_all_cases_of_a_launch_fail_if_the_first_line_of_its_worker_is_invalid(
    folder: Folder,
) -> None:
    python = garbled(folder, "1.fake", "NoneType", b"steady\n")
    ran = folder.run("--payloads=1M,2M", f"--python=fake={python}", exit_code=1)
    assert set(ran.outcomes.values()) == {"FAILED"}
    assert "reply is invalid (1:1: not JSON: Expecting value) while starting" in ran.case()["text"]


@pytest.mark.parametrize(
    ("raw", "says"),
    sweep(
        [
            (reply("Probe", []), "Probe: expected an object, got []"),
            (
                probe_reply(mesh="../../..", device_kind="Fake CPU"),
                "Probe.devices[0].mesh: '../../..' is not a mesh",
            ),
            (
                probe_reply(ranks=0),
                "Probe.devices[0].ranks: expected 1 to 1000000, got 0",
            ),
            (
                probe_reply(strategies={"default": "a/b"}),
                "Probe.devices[0].strategies.default: expected words, got 'a/b'",
            ),
        ]
    ),
    ids=["a list", "a mesh that is a path", "no ranks", "a strategy that is a path"],
)
def test_an_invalid_reply_to_the_probe_is_a_usage_error_that_names_the_invalid_value(
    folder: Folder, raw: bytes, says: str
) -> None:
    python = garbled(folder, "probe", "Probe", raw)
    ran = folder.run(f"--python=fake={python}", exit_code=4)
    assert f"the worker's reply is invalid ({says}" in ran.sentence
    assert ran.results is None
