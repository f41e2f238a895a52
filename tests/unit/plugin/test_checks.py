"""A usage error that needs no device is shown while another session has the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from busbw.driver.local import lock_this_machine
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

BLOCKS = ("--collectives=all_to_all", "--payloads=8")


@pytest.fixture
def folder_of_busy_machine(folder: Folder) -> Iterator[Folder]:
    """Yield a folder while another session has the machine."""
    with lock_this_machine(0):
        yield folder


def usage_error_of(folder_of_busy_machine: Folder, *options: str) -> str:
    """Return the usage error of a session that would otherwise wait for the machine."""
    ran = folder_of_busy_machine.run("--device-wait=3600", *options, exit_code=4)
    assert "waiting for its end" not in ran.text
    assert len(ran.sentence.replace(str(folder_of_busy_machine.path), "")) <= 3 * 80
    return ran.sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    sweep(
        [
            (("--device=tpu",), "no TPU to measure on (fake: not in the script)"),
            (("--mesh=2x4", "--ranks=4"), "--ranks: expected 8, of the mesh or all processes"),
            (("--mesh=2x4", "--axes=z"), "no axis of the mesh 2x4; it has x, y"),
            ((*BLOCKS, "--ranks=4"), "payload of 8 is not 4 equal blocks of float32"),
            ((*BLOCKS, "--mesh=2x2"), "payload of 8 is not 4 equal blocks of float32"),
            ((*BLOCKS, "--device=cpu"), "payload of 8 is not 4 equal blocks of float32"),
        ],
        in_gate=2,
    ),
)
def test_a_usage_error_that_no_device_decides_is_shown_while_another_session_measures(
    folder_of_busy_machine: Folder, options: tuple[str, ...], sentence: str
) -> None:
    assert sentence in usage_error_of(folder_of_busy_machine, *options)


@pytest.mark.exhaustive
def test_a_session_on_an_attached_tpu_waits_for_another_session_without_a_usage_error(
    folder: Folder,
) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    with lock_this_machine(0):
        ran = folder.run("--device=tpu", "--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine" in ran.sentence
    assert folder.run("--device=tpu", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
