"""The signature of a sum in sessions: stored with baselines, and noted if it changed."""

from __future__ import annotations

import pytest

from tests.helpers.frameworks import needs
from tests.helpers.session_folder import Folder

RING = {"signature": "00000001 ring"}
DOUBLED = {"signature": "00000002 recursive doubling"}


@pytest.fixture
def folder_with_signature(folder: Folder) -> Folder:
    """Return a folder with a stored baseline whose signature is a ring."""
    folder.script(extra=RING)
    folder.updated()
    assert folder.stored["entries"][0]["extra"] == RING
    return folder


def test_a_changed_order_of_additions_is_noted_with_the_earlier_and_the_current_versions(
    folder_with_signature: Folder,
) -> None:
    folder_with_signature.script(extra=RING)
    assert folder_with_signature.run(exit_code=0).case()["notes"] == []
    folder_with_signature.script(extra=DOUBLED, versions={"fake": "2"})
    ran = folder_with_signature.run(exit_code=0)
    assert (ran.outcomes, *ran.case()["notes"]) == (
        {"1M": "PASS"},
        "another order of additions (fake 1 -> 2): 00000001 ring -> 00000002 recursive doubling",
    )


def test_a_signature_that_cannot_be_read_fails_its_case(folder: Folder) -> None:
    folder.script(extra={"signature": 5})
    text = folder.run("--update-baselines", exit_code=1).text
    assert "1 FAILED: fake 1M: " in text and "extra.signature: expected a string, got 5" in text


def test_the_option_require_signature_fails_a_case_with_another_order_of_additions(
    folder_with_signature: Folder,
) -> None:
    folder_with_signature.script(extra=DOUBLED)
    text = folder_with_signature.run("--require-signature", exit_code=1).text
    assert "\n1 CHANGED: fake 1M: another order of additions (the same stack: " in text


def test_a_session_shows_from_which_payloads_on_the_order_of_additions_is_different(
    folder: Folder,
) -> None:
    doubled_or_ring = {"signature": "00000003 recursive doubling or ring"}
    extras = {1: DOUBLED, 2: doubled_or_ring, 8: doubled_or_ring}
    folder.script(
        extra=RING,
        cases=[{"payload_bytes": size << 10, "extra": extra} for size, extra in extras.items()],
    )
    ran = folder.run("--payloads=1K,2K,4K,8K", exit_code=0)
    assert "fake all_reduce (fake)  recursive doubling from 1K, ring from 4K" in ran.text


@pytest.mark.exhaustive
@needs("jax")
def test_jax_adds_up_over_two_processes_by_the_ring_of_gloo_at_small_and_large_payloads(
    folder: Folder,
) -> None:
    processes = ("--processes=2", "--ranks-per-process=2")
    ran = folder.run("--frameworks=jax", *processes, "--payloads=1K,4K,256K,1M", exit_code=0)
    launches = [launch for case in ran.cases for launch in case["launches"]]
    assert [launch["extra"]["signature"].partition(" ")[2] for launch in launches] == ["ring"] * 4
    assert "order of summation, by payload" not in ran.text
