"""The environment that sessions record: no secret, no host name and no home directory."""

from __future__ import annotations

import json

import pytest

from tests.helpers import nightly
from tests.helpers.session_folder import SEVEN, SLOW, TPU, Folder, Ran

SECRET = "hunter2-hunter2"
NOT_RECORDED = (
    *("TF_TOKEN_app_terraform_io", "TF_VAR_password", "JAX_SECRET", "XLA_API_KEY", "TF_CONFIG"),
    *("HTTPS_PROXY", "AWS_SECRET_ACCESS_KEY", "OMPI_TOKEN"),
)
# A library that every Python has loaded anyway.
PRELOADED = "libm.so.6"


@pytest.fixture
def folder_with_secrets(folder: Folder) -> Folder:
    """Return a folder whose sessions see secrets and paths below home directories."""
    for name in NOT_RECORDED:
        folder.environment.setenv(name, SECRET)
    folder.environment.setenv("HOME", str(folder.path / "people" / "me"))
    folder.environment.setenv("XLA_FLAGS", "--xla_dump_to=/home/somebody/dump --xla_x=1")
    folder.environment.setenv("TPU_LIBRARY_PATH", f"{folder.path}/people/me/libtpu.so")
    folder.environment.setenv("JAX_COORDINATOR_ADDRESS", f"grpc://me:{SECRET}@host:1")
    folder.environment.setenv("LD_PRELOAD", PRELOADED)
    folder.script(**SLOW, framework_path="/home/somebody/venv/jax")
    return folder


def written_texts(folder: Folder, ran: Ran) -> str:
    """Return the output of a session and the text of all its files."""
    names = [*folder.baseline_files, folder.path / "results.json", folder.path / "junit.xml"]
    return "\n".join([ran.text, *(path.read_text() for path in names)])


def test_a_session_records_environment_variables_without_secrets_or_home_directories(
    folder_with_secrets: Folder,
) -> None:
    ran = folder_with_secrets.updated()
    assert "/home/somebody" not in written_texts(folder_with_secrets, ran)
    assert "people/me" not in written_texts(folder_with_secrets, ran)
    assert SECRET not in written_texts(folder_with_secrets, ran)
    environment = ran.document["environment"]
    assert environment["framework_paths"] == {"fake": "~/venv/jax"}
    assert ran.case()["launches"][0]["framework_path"] == "~/venv/jax"
    flags = environment["flags"]
    assert flags["TPU_LIBRARY_PATH"] == "~/libtpu.so"
    assert flags["JAX_COORDINATOR_ADDRESS"] == "grpc://***@host:1"
    assert not set(NOT_RECORDED) & set(flags)
    (path,) = folder_with_secrets.baseline_files
    (session,) = json.loads(path.read_text())["sessions"].values()
    surroundings = session["surroundings"]
    assert not set(NOT_RECORDED) & set(surroundings)
    assert flags["LD_PRELOAD"] == surroundings["LD_PRELOAD"] == PRELOADED
    assert surroundings["XLA_FLAGS"] == "--xla_dump_to=~/dump --xla_x=1"


@pytest.mark.exhaustive
@pytest.mark.extension("compiled")
def test_a_compiling_session_records_flags_without_secrets_or_home_directories(
    folder_with_secrets: Folder,
) -> None:
    options = ("--frameworks=fake", "--topology=v5e:2x4", "--compile-cache=none", "--payloads=1K")
    ran = folder_with_secrets.pytest(
        "perf", *options, "-p", "no:cacheprovider", "--update-baselines", exit_code=0
    )
    assert SECRET not in written_texts(folder_with_secrets, ran)
    assert "/home/somebody" not in written_texts(folder_with_secrets, ran)
    (compiler,) = ran.document["compilers"]
    assert not set(NOT_RECORDED) & set(compiler["flags"])
    assert compiler["flags"]["XLA_FLAGS"] == "--xla_dump_to=~/dump --xla_x=1"


@pytest.mark.exhaustive
def test_a_session_names_a_newly_set_flag_in_its_header_and_in_its_last_lines(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    (shared,) = folder.stored["sessions"].values()
    accepted = nightly.days_ago(30)[: len("2026-01-31")]
    nightly.stored_before(folder, {30: 1.0})
    nightly.nights(folder, [1.0] * 3, versions={**shared["versions"], "fake": "0.9"})
    folder.environment.setenv("XLA_FLAGS", "--xla_x=2")
    folder.script(**TPU, cases=[{"payload_bytes": 1 << 14, "slower": 2.0}])
    ran = folder.run(SEVEN, "--history=history", exit_code=1)
    header = f"busbw fake: other than the baseline of {accepted}: XLA_FLAGS none -> --xla_x=2"
    assert header in ran.text.splitlines()
    *_, failed, since, last, _ = ran.text.splitlines()
    assert failed.startswith("1 REGRESSED: fake 16K 2.00 x")
    assert since.startswith("fake.all_reduce.fake.float32.16K: REGRESSED since ")
    change = "changed there: fake 0.9 -> 1, XLA_FLAGS none -> --xla_x=2"
    assert since.endswith(f" (1 session); {change}")
    assert last.startswith("FAILED: ")
