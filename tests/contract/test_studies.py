"""`python -m studies`: each study runs, reports its errors, and leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

from studies.__main__ import NAMES
from studies.measurements import parse_payloads
from tests.contract.docs.pages import ROOT
from tests.helpers.frameworks import is_stalled

_MARK = "BUSBW_TEST_OF_STUDIES"
_WAIT_S = 60.0


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a text that is in the environment of every process that the test starts."""
    text = uuid4().hex
    monkeypatch.setenv(_MARK, text)
    yield text
    # What follows the end of its parent needs a moment.
    deadline_s = time.monotonic() + _WAIT_S
    while _processes(text) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert _processes(text) == []


def _processes(mark: str) -> list[str]:
    """Return the command lines of all processes with this mark, but for those of this session."""
    commands = []
    for folder in Path("/proc").iterdir():
        try:
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes():
                commands.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return commands


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def _study(*arguments: str) -> list[str]:
    """Run a study that must succeed; return the lines of its report.

    A study during which the machine stalled is run once more.
    """
    done = _run("-m", "studies", *arguments)
    if is_stalled(done.stdout + done.stderr):
        done = _run("-m", "studies", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Machine: ")
    return lines


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("none", 2)])
def test_the_help_of_the_package_studies_and_its_usage_error_list_all_scripts(
    argument: str, code: int
) -> None:
    done = _run("-m", "studies", argument)
    assert done.returncode == code
    assert [name for name in NAMES if name not in done.stdout + done.stderr] == []


@pytest.mark.exhaustive
def test_a_script_of_studies_prints_the_error_of_a_session_that_fails() -> None:
    done = _run("-m", "studies", "tpu_v2", "--payloads=5X")
    assert done.returncode == 1
    assert "ended with exit code 4" in done.stderr
    assert "--payloads: " in done.stderr


def test_the_payloads_of_the_training_script_are_multiples_of_a_row_of_weights() -> None:
    assert parse_payloads("1M,64K") == [64 * 1024, 1024**2]
    for text in ("1K", "64", "0K", ""):
        with pytest.raises(Exception, match="expected"):
            parse_payloads(text)


@pytest.mark.parametrize(
    ("members", "code", "output"),
    [
        ("GroupMember(int, ['7']), GroupMember(time.sleep, [600], is_server=True)", 0, "[7, None]"),
        (
            "GroupMember(int, ['x']), GroupMember(time.sleep, [600])",
            1,
            "ValueError: invalid literal",
        ),
    ],
)
@pytest.mark.usefixtures("mark")
def test_the_processes_of_a_study_end_if_a_process_fails_or_all_processes_except_servers_end(
    members: str, code: int, output: str
) -> None:
    program = f"import time; from studies.processes import *; print(run_group([{members}]))"
    done = _run("-c", program)
    assert done.returncode == code
    assert output in done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.framework("jax")
@pytest.mark.usefixtures("mark")
def test_the_script_all_reduce_in_training_reports_the_ratio_of_its_two_measured_rates() -> None:
    lines = _study("all_reduce_in_training", "--frameworks=jax", "--payloads=64K", "--launches=1")
    size, published, inside, alone, ratio = (cell.strip() for cell in lines[-1].split("|")[1:-1])
    assert (size, published) == ("64K", "8.082")
    assert float(ratio) == pytest.approx(float(alone) / float(inside), rel=0.02)


@pytest.mark.exhaustive
@pytest.mark.framework("jax", "tensorflow")
@pytest.mark.usefixtures("mark")
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["all_reduce_in_training", "--payloads=64K,1M"], "| 1M |"),
        (["parameter_servers", "--epochs=3"], "| 2 servers, 2 workers, synchronous |"),
        (["prediction", "--payloads=256K"], "| tensorflow, 256K |"),
        (["strategies", "--epochs=5"], "| TPUStrategy | - | - | - | skipped: no TPU is attached |"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_each_script_of_studies_runs_and_prints_the_rows_of_its_table(
    arguments: list[str], output: str
) -> None:
    assert [line for line in _study(*arguments) if output in line] != []


@pytest.mark.exhaustive
@pytest.mark.framework("jax")
@pytest.mark.usefixtures("mark")
# Its import would set variables of libtpu in the process of later tests.
@pytest.mark.skipif(find_spec("libtpu") is None, reason="needs libtpu")
def test_the_script_tpu_v2_is_out_of_memory_at_the_same_payload_as_its_published_source() -> None:
    fits, refused = _study("tpu_v2", "--slices", "v2-512", "--payloads=1K")[-2:]
    assert fits.startswith("| v2-512 128M | 52.26 |")
    assert "OOM" not in fits
    assert refused.startswith("| v2-512 256M | OOM | OOM: needs ")


@pytest.mark.exhaustive
@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_script_of_studies_that_a_signal_ends_leaves_no_process(
    number: signal.Signals, mark: str
) -> None:
    command = [sys.executable, "-m", "studies", "parameter_servers", "--epochs=1000"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline_s = time.monotonic() + _WAIT_S
    # The study itself, what forks its processes, and one of these.
    while len(_processes(mark)) < 4 and time.monotonic() < deadline_s:
        time.sleep(0.1)
    os.kill(process.pid, number)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert process.wait(_WAIT_S) == codes[number]
