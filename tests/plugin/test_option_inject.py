"""--inject: the gate is tried with a slowdown that is really there, and it closes."""

from __future__ import annotations

import pytest

from .folder import SLOW, Folder
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
