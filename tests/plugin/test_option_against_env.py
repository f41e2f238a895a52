"""--against-env: variables of the reference's environment; alone, with the same Python."""

from __future__ import annotations

import json

import pytest

from .folder import SLOW, Folder

PAIRS = "--launches=2"


def reference(**fields: object) -> str:
    """The option by which the reference plays another script."""
    return f"--against-env=BUSBW_FAKE={json.dumps(fields)}"


def test_a_variable_that_changes_nothing_gives_no_alarm(folder: Folder) -> None:
    ran = folder.run("--against-env=NOTHING=a=b", "--against-env=EMPTY=", PAIRS, exit_code=0)
    assert ran.outcomes == {"1M": "PASS"}


def test_what_is_slower_than_the_reference_fails_after_it_was_seen_again(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "slower": 1.1}])
    ran = folder.run(reference(**SLOW), PAIRS, "--payloads=1K,1M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "1M": "REGRESSED"}
    (words,) = ran.failures
    assert "1.100 x the reference's time in turn" in words
    assert "seen again" in words
    assert len(ran.case()["launches"]) == 5
    assert "busbw: 3 more launches of fake-default-float32-1K" in ran.text


def test_what_is_faster_than_the_reference_has_improved(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(reference(**SLOW, cases=[{"slower": 1.2}]), PAIRS, exit_code=0)
    assert ran.outcomes == {"1M": "IMPROVED"}


def test_a_reference_that_dies_fails_the_case_and_is_named(folder: Folder) -> None:
    ran = folder.run(reference(cases=[{"then": "kill"}]), PAIRS, exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    (words,) = ran.failures
    assert "the reference: killed in 2 of 2 launches" in words


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device": "tpu", "ranks": 4}, "the reference: no CPU to measure on"),
        ({"protocol": "other"}, "would measure another case: protocol host/other, here host/fake"),
        ({"probe": "exit"}, "the reference: "),
    ],
)
def test_a_reference_that_would_measure_something_else_is_refused(
    folder: Folder, fields: dict[str, object], said: str
) -> None:
    ran = folder.run(reference(**fields), exit_code=4)
    assert said in ran.sentence
    assert ran.results is None


@pytest.mark.parametrize("text", ["NAME", "=value", ""])
def test_nonsense_is_a_usage_error_that_says_what_is_accepted(folder: Folder, text: str) -> None:
    ran = folder.run(f"--against-env={text}", exit_code=4)
    assert f"--against-env: {text!r}; accepted is NAME=VALUE" in ran.sentence


def test_nothing_of_it_becomes_a_baseline(folder: Folder) -> None:
    ran = folder.run("--against-env=A=B", "--update-baselines", exit_code=4)
    assert "--update-baselines: not with --against" in ran.sentence
