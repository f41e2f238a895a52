"""No attack and no kill makes a session with a regression pass, or loses stored lines."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.adversarial.attacks.attack import OF_PYTEST, WORKERS
from tests.adversarial.attacks.conftests import CONFTESTS
from tests.adversarial.attacks.stored import BASELINES, FILES, HISTORIES
from tests.helpers.session_folder import SLOW, TIMEOUT_S, Folder

pytestmark = pytest.mark.exhaustive

GROUPS = {
    "pytest": OF_PYTEST,
    "conftest": CONFTESTS,
    "baseline": BASELINES,
    "history": HISTORIES,
    "file": FILES,
    "worker": WORKERS,
}
ATTACKS = {
    f"{group}, {name}": attack
    for group, attacks in GROUPS.items()
    for name, attack in attacks.items()
}


def stored(folder: Folder) -> bytes:
    """Return the bytes of all files of baselines and history."""
    paths = (path for name in ("baselines", "history") for path in (folder.path / name).rglob("*"))
    # A link may lead to what has no end.
    files = (path for path in paths if path.is_file() and not path.is_symlink())
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_lets_a_session_with_a_regression_pass_or_loses_a_stored_line(
    folder: Folder, name: str
) -> None:
    attack = ATTACKS[name]
    folder.script(**SLOW)
    folder.with_baselines("--history=history")
    folder.script(**{**SLOW, "cases": [{"slower": 5}], **attack.script})
    folder.ini(attack.ini)
    if attack.conftest:
        (folder.path / "perf" / "conftest.py").write_text(attack.conftest)
    for variable, value in attack.environment.items():
        folder.environment.setenv(variable, value)
    attack.do(folder)
    before = stored(folder)
    code, text = folder.ended(*attack.options)
    assert code in attack.codes, text
    after = stored(folder)
    assert all(line.strip(b"\r") in after for line in before.splitlines())


# JAX reads the recordings where it is installed.
@pytest.mark.framework()
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("host.xplane.pb", b"\xff" * 4096),
        ("host.trace.json.gz", b"\x1f\x8b\x08\x00torn"),
        ("host.trace.json", b"[" * 200_000),
        ("host.xplane.pb", Path("/dev/zero")),
        # A folder without a recording, and no folder.
        ("host", b""),
        ("", b""),
    ],
)
def test_the_error_of_trace_about_an_unreadable_recording_has_no_control_characters(
    tmp_path: Path, name: str, content: bytes | Path
) -> None:
    path = tmp_path / "evil\x1b[31m"
    if name:
        path.mkdir()
    if isinstance(content, Path):
        (path / name).symlink_to(content)
    elif name:
        (path / name).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "trace", str(path)],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2) and output.strip()
    assert b"\x1b" not in output and b"Traceback" not in output


@pytest.mark.parametrize("after_s", [0.2, 0.5, 0.8, 1.1])
def test_a_killed_session_loses_no_stored_line_of_baselines_or_history(
    folder: Folder, after_s: float
) -> None:
    folder.script(**SLOW)
    folder.with_baselines("--history=history")
    names = ("baselines", "history")
    before = [path for name in names for path in (folder.path / name).rglob("*") if path.is_file()]
    lines = [line for path in before for line in path.read_bytes().splitlines()]
    session = folder.start("--history=history", "--update-baselines")
    time.sleep(after_s)
    session.send_signal(signal.SIGKILL)
    session.wait(TIMEOUT_S)
    after = b"".join(path.read_bytes() for path in before)
    stored_lines = [line for line in lines if b'"launch' in line or b'"case"' in line]
    assert all(line in after for line in stored_lines)
    folder.script(**SLOW, cases=[{"slower": 5}])
    folder.run("--history=history", exit_code=1)
