"""Several processes on one host, and sessions that wait for the machine."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.frameworks import needs
from tests.helpers.session_folder import FAKE, WITHOUT_CACHE, Folder
from tests.helpers.workers import can_unshare, wait_until

TWO = ("--processes=2", "--ranks-per-process=2")


def test_the_results_of_a_case_that_two_processes_measure_together_say_two_processes(
    folder: Folder,
) -> None:
    ran = folder.run(*TWO, exit_code=0)
    assert "4 ranks, 1 host, 2 processes" in ran.text
    case = ran.case()
    assert (case["case"]["ranks"], case["outcome"]) == (4, "NO_BASELINE")
    assert ran.document["environment"]["key"]["processes"] == 2


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("kill", "worker 1: the worker was killed"),
        pytest.param("wrong_result", "worker 1: ", marks=pytest.mark.exhaustive),
        pytest.param("hang", "", marks=pytest.mark.exhaustive),
    ],
)
def test_a_process_that_is_killed_or_wrong_or_hangs_fails_only_the_case_that_it_measured(
    folder: Folder, event: str, reason: str
) -> None:
    folder.script(processes={"1": {"cases": [{"payload_bytes": 1024, "then": event}]}})
    ran = folder.run(*TWO, "--payloads=1K,2K", "--case-timeout=3", exit_code=1)
    assert ran.outcomes == {"1K": "FAILED", "2K": "NO_BASELINE"}
    assert reason in ran.case("1K")["text"]


def test_a_session_whose_processes_have_different_framework_versions_measures_no_case(
    folder: Folder,
) -> None:
    folder.script(processes={"1": {"versions": {"fake": "2"}}})
    ran = folder.run(*TWO, exit_code=1)
    assert ran.results is None
    assert "1 INCOMPARABLE: fake 1M: fake: " in ran.text and ": process 1 (" in ran.text
    assert "has fake 2, process 0 (" in ran.text


@needs("jax")
def test_jax_measures_in_two_processes_of_two_ranks(folder: Folder) -> None:
    ran = folder.run("--frameworks=jax", *TWO, "--payloads=1K,4K", exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE", "4K": "NO_BASELINE"}
    (launch,) = ran.case("1K")["launches"]
    assert launch["values_checked"] > 0


@pytest.mark.exhaustive
@needs("tensorflow")
def test_tensorflow_measures_in_two_processes(folder: Folder) -> None:
    ran = folder.run("--frameworks=tensorflow", "--processes=2", "--payloads=1K", exit_code=0)
    case = ran.case("1K")
    assert (case["case"]["strategy"], case["case"]["ranks"]) == ("ring", 2)


@pytest.mark.exhaustive
@needs("tensorflow")
def test_tensorflow_has_one_rank_in_each_process_on_a_cpu(folder: Folder) -> None:
    sentence = folder.run("--frameworks=tensorflow", *TWO, exit_code=4).sentence
    assert "one rank in each of several processes on a CPU, 2 are " in sentence


def start_hanging_session(folder: Folder) -> subprocess.Popen[bytes]:
    """Start a session that holds the machine until it is interrupted."""
    folder.script(cases=[{"then": "hang"}])
    session = folder.start()
    assert wait_until(lambda: list(folder.temporary.glob("busbw-*/1.fake.fake.log")))
    folder.script()
    return session


def test_a_session_waits_as_long_as_requested_for_another_session_and_names_its_pid(
    folder: Folder, tmp_path: Path
) -> None:
    first = start_hanging_session(folder)
    # Sessions with other folders for temporary files wait for each other, too.
    folder.environment.setenv("TMPDIR", str(tmp_path))
    ran = folder.run("--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine for 0.3 s" in ran.sentence
    assert f"(pid {first.pid}, started " in ran.sentence
    second = folder.start()
    assert wait_until(lambda: "another busbw session is measuring" in folder.output)
    assert f"waiting for its end (pid {first.pid}, started " in folder.output
    first.send_signal(signal.SIGINT)
    assert (first.wait(30), second.wait(60)) == (2, 0)
    assert "1 case measured in 1 launch each" in folder.output


def test_a_session_leaves_no_lock_file(folder: Folder) -> None:
    for _ in range(2):
        folder.updated("--device-wait=0.1")
        assert not folder.left_over()
        assert [path.suffix for path in folder.baseline_files] == [".json"]


@needs("jax")
@pytest.mark.extension("cluster")
def test_a_session_on_a_single_host_of_a_tpu_slice_without_the_option_hosts_is_a_usage_error(
    folder: Folder,
) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    options = ("perf", "--frameworks=jax", "--device=tpu", "--payloads=1K")
    sentence = folder.pytest(*options, exit_code=4).sentence
    assert "this host is one of 4 of its TPU slice" in sentence
    assert "--hosts=tpu measures on all of them by ssh" in sentence


@pytest.mark.exhaustive
@needs("jax")
def test_a_host_of_a_tpu_slice_measures_alone_if_process_bounds_limit_it_to_one_host(
    folder: Folder,
) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    folder.environment.setenv("TPU_PROCESS_BOUNDS", "1,1,1")
    options = ("perf", "--frameworks=jax", "--device=tpu", "--payloads=1K")
    assert "of its TPU slice" not in folder.pytest(*options, exit_code=4).sentence


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs(name)) for name in ("jax", "tensorflow")]
)
def test_processes_connect_to_each_other_even_if_the_environment_names_a_proxy(
    folder: Folder, framework: str
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
        # Nothing listens there.
        folder.environment.setenv(name, "http://127.0.0.1:9")
        folder.environment.setenv(name.upper(), "http://127.0.0.1:9")
    options = (f"--frameworks={framework}", "--processes=2", "--payloads=1K")
    assert folder.run(*options, exit_code=0).outcomes == {"1K": "NO_BASELINE"}


@pytest.mark.exhaustive
@pytest.mark.skipif(not can_unshare("--net"), reason="no network namespace can be made")
def test_two_processes_in_a_network_namespace_without_loopback_are_a_usage_error(
    folder: Folder,
) -> None:
    command = ["unshare", "--net", *folder.command(*FAKE, *WITHOUT_CACHE, *TWO)]
    done = folder.pytester.run(*command)
    assert done.ret == 4
    (error,) = [line for line in done.errlines if line]
    assert "at 127.0.0.1 (Network is unreachable): this network namespace has no loopback" in error
