"""The line of a log that says why its process ended; the files in logs/ are of real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.driver.logs import MAX_REASON_CHARACTERS, reason_in_log

LOGS = Path(__file__).with_name("logs")
REASONS = {
    "pthread_create": (
        "env.cc:93] Check failed: ret == 0 (11 vs. 0) Thread tf_XLAPjRtCpuClient creation via "
        "pthread_create() failed."
    ),
    "segmentation_fault": (
        "Fatal Python error: Segmentation fault in string_at (__init__.py, line 519)"
    ),
    "terminate": "terminate called without an active exception",
    "transfer_guard": (
        "jax.errors.JaxRuntimeError: INVALID_ARGUMENT: Disallowed host-to-device transfer: "
        "aval=ShapedArray(float32[]), dst_sharding=SingleDeviceSharding(device=CpuDevice(id=0), "
        "memory_kind=device)"
    ),
    "xla_flags": "parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_nonsense=1",
}

STACK = """
Thread 0x00007f0 (most recent call first):
  File "/usr/lib/threading.py", line 320 in wait

Current thread 0x00007f1 (most recent call first):
  File "/venv/lib/jax/_src/distributed.py", line 173 in initialize
  File "<frozen runpy>", line 198 in _run_module_as_main
"""
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'first'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise ValueError(
ValueError: second
with a line more
"""


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_why_a_worker_ended_equals_the_expected_line_of_its_recorded_log(
    name: str,
) -> None:
    assert reason_in_log((LOGS / f"{name}.txt").read_text()) == REASONS[name]


def test_a_long_reason_from_a_log_keeps_its_beginning_and_its_end() -> None:
    line = reason_in_log((LOGS / "coordination_service.txt").read_text())
    assert line.startswith("client.h:80] Terminating process because the JAX distributed service ")
    assert line.endswith("absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded")
    assert len(line) == MAX_REASON_CHARACTERS + len(" ... ")


@pytest.mark.parametrize(
    "line",
    [
        "LLVM ERROR: pthread_create failed: Resource temporarily unavailable",
        "tensor.cc:59] Check failed: dtype() == expected_dtype (1 vs. 3)",
        "python: mutex.c:12: lock: Assertion `m != NULL' failed.",
        "free(): double free detected in tcache 2",
        "malloc(): corrupted top size",
        "python: error while loading shared libraries: libcudart.so.12: cannot open shared object",
        "thread 'main' panicked at src/lib.rs:2:5:",
        "UNAVAILABLE: DEADLINE_EXCEEDED: Barrier timed out",
    ],
)
def test_the_reason_why_a_worker_ended_is_the_first_fatal_line_of_its_log(line: str) -> None:
    log = f"W0000 a warning\n{line}\nFatal Python error: Aborted\n{STACK}\nExtension modules: numpy"
    assert reason_in_log(log) == line


TENSORFLOW = "tensorflow/core/framework/tensor.cc:844] it is not so"
TOO_OLD = "Python 3.9.1 is too old: expected 3.11 or newer"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (f"2026-11-28 00:21:15.676642: F {TENSORFLOW}\nAborted", TENSORFLOW),
        # The last of chained exceptions.
        (CHAINED, "ValueError: second"),
        # The function that the current thread runs.
        (f"compiling\n{STACK}", "in initialize (distributed.py, line 173)"),
        # The last line where no line is fatal.
        (f"one\n{TOO_OLD}\n", TOO_OLD),
        ("", ""),
    ],
    ids=["no time of day", "chained exceptions", "a stack", "no fatal line", "empty"],
)
def test_each_form_of_a_log_gives_the_reason_why_its_worker_ended(log: str, reason: str) -> None:
    assert reason_in_log(log) == reason
