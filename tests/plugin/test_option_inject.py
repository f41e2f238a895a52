"""--inject: the gate is tried with a slowdown that is really there, and it closes."""

from __future__ import annotations

import pytest

from .folder import SLOW, WITHOUT_CACHE, Folder
from .test_option_against import AGAINST

PAIRS = (AGAINST, "--launches=2")


def test_a_delay_of_one_payload_fails_that_one_alone_and_is_recorded(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(*PAIRS, "--payloads=1K,1M,4M", "--inject=delay:10%@1M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "1M": "REGRESSED", "4M": "PASS"}
    (words,) = ran.failures
    assert "1.100 x the reference's time" in words
    assert {launch["injected"] for launch in ran.case()["launches"]} == {"delay:10%@1M"}
    assert {launch["injected"] for launch in ran.case("4M")["launches"]} == {""}


@pytest.mark.exhaustive
def test_what_it_was_measured_to_be_is_reported_beside_what_was_asked_for(folder: Folder) -> None:
    folder.script(**SLOW, injected_more=2.0)
    ran = folder.run(*PAIRS, "--payloads=1K,1M,4M", "--inject=delay:10%@1M+4M", exit_code=1)
    assert "busbw injected: delay:10%@1M+4M; the times are not real" in ran.text
    assert "note: injected delay:10%@1M+4M: measured +20.0 % at 1M, +20.0 % at 4M" in ran.text
    (note,) = (one for one in ran.case()["notes"] if one.startswith("injected"))
    assert note.startswith("injected delay:10%@1M+4M: measured +20.0 % (2")
    assert note in ran.text
    ratios = [launch["injected_ratio"] for launch in ran.case()["launches"]]
    assert ratios == pytest.approx([1.2] * len(ratios), rel=0.03)
    others = [*ran.case("1K")["launches"], *ran.case()["reference_launches"]]
    assert {launch["injected_ratio"] for launch in others} == {None}
    assert not any("injected" in one for one in ran.case("1K")["notes"])


@pytest.mark.exhaustive
def test_a_delay_of_all_payloads_fails_all(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(*PAIRS, "--payloads=1K,1M", "--inject=delay:100us", exit_code=1)
    assert ran.outcomes == {"1K": "REGRESSED", "1M": "REGRESSED"}
    assert len(ran.failures) == 2


@pytest.mark.exhaustive
def test_a_delay_for_each_mebibyte_fails_the_large_payloads(folder: Folder) -> None:
    folder.script(**SLOW)
    ran = folder.run(*PAIRS, "--payloads=1K,4M", "--inject=delay:100us/M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "4M": "REGRESSED"}


@pytest.mark.exhaustive
def test_memory_that_the_reference_has_and_we_have_not_fails_and_is_named(folder: Folder) -> None:
    ran = folder.run(*PAIRS, "--payloads=1K,16M", "--inject=memory:96M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    (words,) = ran.failures
    assert "needs 128.0 MiB" in words
    assert "; the reference fits" in words


def test_what_was_slowed_down_on_purpose_becomes_no_baseline(folder: Folder) -> None:
    for writing in ("--update-baselines", "--rebase=why", "--prune-baselines"):
        ran = folder.run("--inject=delay:5%", writing, exit_code=4)
        said = f"{writing.split('=')[0]}: not with --inject: these are no times for a baseline"
        assert said in ran.sentence


@pytest.mark.parametrize(
    "text",
    [
        "delay",
        "delay:",
        "delay:0%",
        "delay:-5%",
        "delay:5",
        "delay:5%/M",
        "delay:often",
    ],
)
def test_nonsense_is_a_usage_error_that_says_what_is_accepted(folder: Folder, text: str) -> None:
    ran = folder.run(f"--inject={text}", exit_code=4)
    said = f"busbw: --inject: {text!r}; accepted is delay:AMOUNT, where AMOUNT is such as 15%, "
    assert said in ran.sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chaos", "'chaos'; accepted are delay, memory"),
        ("dealy:15%", "'dealy'; did you mean 'delay'? accepted are delay, memory"),
        ("payload:10%", "'payload'; accepted are delay, memory"),
        ("sleep:60%", "'sleep'; accepted are delay, memory"),
    ],
)
def test_what_cannot_be_injected_is_a_usage_error(folder: Folder, text: str, said: str) -> None:
    assert f"busbw: --inject: {said}" in folder.run(f"--inject={text}", exit_code=4).sentence


@pytest.mark.parametrize("text", ["memory:much", "memory:", "delay:5%@much", "delay:5%@1K+"])
def test_a_size_that_is_none_is_a_usage_error(folder: Folder, text: str) -> None:
    ran = folder.run(f"--inject={text}", exit_code=4)
    assert "--inject: " in ran.sentence and "is not a size" in ran.sentence


def test_a_payload_that_no_selected_test_has_is_a_usage_error(folder: Folder) -> None:
    """Otherwise it would be a trial that tries nothing, and green."""
    folder.script(probe="exit")
    options = (*PAIRS, "--payloads=1K,1M")
    ran = folder.run(*options, "--inject=delay:15%@4M", exit_code=4)
    assert "--inject: 4M is no payload of the selected tests; they have 1K, 1M" in ran.sentence
    ran = folder.run(*options, "-k", "1K", "--inject=delay:15%@1K+1M", exit_code=4)
    assert "--inject: 1M is no payload of the selected tests; they have 1K" in ran.sentence
    assert ran.results is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--frameworks=jax,tensorflow", "--inject=delay:15%"),
            "cannot do a delay; it takes memory",
        ),
        (("--clock=dispatch", "--inject=delay:15%"), "a delay is for chains, not for the single"),
    ],
)
def test_what_a_program_cannot_do_is_refused_before_it_is_measured(
    folder: Folder, options: tuple[str, ...], said: str
) -> None:
    ran = folder.pytest(
        *("perf", "--frameworks=jax", "--payloads=1M", *WITHOUT_CACHE, *options), exit_code=4
    )
    assert said in ran.sentence
    assert "busbw device" not in ran.text
