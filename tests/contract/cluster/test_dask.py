"""--cluster and --cluster-trust-network: the scheduler, its workers, and access to both."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.contract.cluster.conftest import cluster
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import wait_until

pytest.importorskip("distributed")
pytestmark = pytest.mark.sessions

TLS = """\
distributed:
  comm:
    require-encryption: true
    tls:
      ca-file: {pem}
      scheduler: {{cert: {pem}}}
      worker: {{cert: {pem}}}
      client: {{cert: {pem}}}
"""


def with_certificate(folder: Folder) -> None:
    """Let Dask accept only clients with the certificate, as docs/hosts.md describes."""
    pem, settings = folder.path / "busbw.pem", folder.path / "dask"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=busbw"]
    done = subprocess.run(
        [*command, "-keyout", str(pem), "-out", str(pem)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    settings.mkdir()
    (settings / "busbw.yaml").write_text(TLS.format(pem=pem))
    folder.environment.setenv("DASK_CONFIG", str(settings))


def test_a_session_measures_with_dask_workers_over_tls(folder: Folder) -> None:
    with_certificate(folder)
    with cluster(folder, ("two", "ten", "one"), "--protocol=tls") as hosts:
        ran = folder.run(*hosts.options, exit_code=0)
        assert ran.document["environment"]["key"]["processes"] == 3


@pytest.mark.exhaustive
def test_a_client_without_a_certificate_cannot_connect_to_a_dask_scheduler_with_tls(
    folder: Folder,
) -> None:
    with_certificate(folder)
    with cluster(folder, ("one",), "--protocol=tls") as hosts:
        (options, _) = hosts.options
        text = Path(options.partition("=")[2]).read_text()
        address = text.partition("tls://")[2].partition('"')[0]
        folder.environment.delenv("DASK_CONFIG")
        for scheme in ("tls", "tcp"):
            stranger = f"""
            from distributed import Client
            try:
                Client("{scheme}://{address}", timeout=5)
            except (OSError, TypeError) as error:
                print("refused", error)
            """
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(stranger)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "refused" in done.stdout, done.stderr


@pytest.mark.parametrize("address", sweep(["tcp://192.0.2.1:8786", "http://192.0.2.1:1"]))
def test_a_remote_dask_scheduler_without_tls_is_refused_unless_an_option_trusts_the_network(
    folder: Folder, address: str
) -> None:
    ran = folder.run(f"--cluster={address}", "--processes=2", exit_code=4)
    assert f"whoever reaches {address} can run programs on its hosts" in ran.sentence
    assert "expected tls://, or --cluster-trust-network" in ran.sentence


@pytest.mark.exhaustive
def test_a_session_with_too_few_dask_workers_ends_after_a_wait_and_says_how_many_joined(
    folder: Folder,
) -> None:
    with cluster(folder, ("one",)) as hosts:
        file = hosts.options[0]
        ran = folder.run(file, "--processes=2", "--device-wait=1", exit_code=4)
        assert "1 of 2 Dask workers joined within 1 s" in ran.sentence
        ran = folder.run(file, exit_code=4)
        assert "--cluster: expected --processes=N, the number of Dask workers" in ran.sentence


@pytest.mark.parametrize(
    ("option", "sentence"),
    sweep(
        [
            ("--cluster=no-such-file", "expected the file that `dask scheduler --scheduler-file`"),
            ("--cluster=tcp://127.0.0.1:{port}", "Timed out trying to connect"),
            ("--cluster=http://127.0.0.1:{port}", "unknown address scheme"),
        ]
    ),
)
def test_a_missing_dask_scheduler_is_a_usage_error_that_gives_the_reason(
    folder: Folder, option: str, sentence: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ran = folder.run(option.format(port=port), "--processes=1", "--device-wait=1", exit_code=4)
    assert sentence in ran.sentence


@pytest.mark.exhaustive
def test_a_dask_worker_with_a_nanny_is_refused(folder: Folder) -> None:
    with cluster(folder, ("one",), "--nanny") as hosts:
        ran = folder.run(*hosts.options, exit_code=4)
        assert "has a nanny, which sets OMP_NUM_THREADS=1" in ran.sentence
        assert wait_until(lambda: not hosts.left, 20)


OTHER_PYTHON = """
from distributed import versions

info = {**versions.get_system_info(), "python": "3.10.1.final.0"}
versions.get_system_info = lambda: info
"""


@pytest.mark.exhaustive
def test_a_dask_worker_with_another_python_version_makes_the_case_incomparable(
    folder: Folder,
) -> None:
    preload = folder.path / "other_python.py"
    preload.write_text(OTHER_PYTHON)
    with cluster(folder, ("one",), f"--preload={preload}") as hosts:
        ran = folder.run(*hosts.options, exit_code=1)
        assert "1 INCOMPARABLE: fake 1M: Dask worker one has " in ran.text
        ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert "one has Python 3.10 and distributed 20" in ran.text
        assert f"this session has Python {ours} and distributed 20" in ran.text
        assert not hosts.left
