"""What makes a session green by accident or by intent, in a repository with a slow case.

The case is five times slower than accepted. pytest's options, ini files and variables, workers that
die, hang and lie are here; `conftests` and `stored` have others. Whatever it is, the session is not
green, and nothing that was stored is lost. Whoever can change the repository can run code there
anyway: forged baselines and options that only an attacker would give are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.session_folder import Folder


@dataclass(frozen=True, kw_only=True)
class Attack:
    """`conftest` stands in perf/, `ini` in pytest.ini; `do` changes what is stored, or the folder.

    `script` is played by the fake back end, in which the case is five times slower unless it says
    otherwise. `codes` are the exit codes that tell of it: 1 failed, 2 interrupted, 3 an error of
    pytest's, 4 a usage error, 5 no tests.
    """

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    conftest: str = ""
    ini: Mapping[str, str] = field(default_factory=dict)
    do: Callable[[Folder], None] = lambda folder: None
    script: Mapping[str, object] = field(default_factory=dict)
    codes: tuple[int, ...] = (1, 2, 4, 5)


def options(*words: str, codes: tuple[int, ...] = (1, 4, 5)) -> Attack:
    """Options alone."""
    return Attack(options=words, codes=codes)


def hook(text: str, codes: tuple[int, ...] = (1, 2, 4, 5)) -> Attack:
    """Return an attack by a conftest.py."""
    return Attack(conftest=f"import pytest\n\n{text}", codes=codes)


def written(folder: Folder, name: str) -> Path:
    """Return the only file below `name`."""
    (path,) = (file for file in (folder.path / name).rglob("*.json*") if file.is_file())
    return path


def baseline(change: Callable[[str], str]) -> Attack:
    """Return an attack that changes the text of the file of baselines."""

    def do(folder: Folder) -> None:
        path = written(folder, "baselines")
        path.write_text(change(path.read_text()))

    return Attack(options=("--require-baselines",), do=do, codes=(1, 4))


def worker(**script: object) -> Attack:
    """Return an attack whose worker dies, hangs or lies."""
    return Attack(script=script, codes=(1,))


def _then(event: str) -> Attack:
    return worker(cases=[{"then": event}])


WORKERS = {
    **{f"a case ends in {event}": _then(event) for event in ("kill", "segfault", "exit")},
    **{f"a case gives {event}": _then(event) for event in ("wrong_result", "not_a_collective")},
    "a case runs out of memory": _then("out_of_memory"),
    "a case replies and hangs": Attack(
        script={"cases": [{"then": "reply_then_hang", "slower": 5}]},
        options=("--case-timeout=2",),
        codes=(1,),
    ),
    "a case hangs": Attack(
        script={"cases": [{"then": "hang"}]}, options=("--case-timeout=2",), codes=(1,)
    ),
    "the probe exits": Attack(script={"probe": "exit"}, codes=(1, 4)),
    "times of 0": Attack(
        script={"latency_s": 0.0, "gb_per_s": 1e300}, options=("--case-timeout=2",), codes=(1,)
    ),
    "impossibly fast": worker(
        device="tpu",
        device_kind="TPU v2",
        ranks=8,
        latency_s=1e-9,
        gb_per_s=1e6,
        clocks=["device", "host"],
    ),
    "another device, baselines required": Attack(
        script={"device_kind": "other"}, options=("--require-baselines",), codes=(1, 4)
    ),
    "fewer ranks, baselines required": Attack(
        script={"ranks": 2}, options=("--require-baselines",), codes=(1, 4)
    ),
    "fewer ranks in CI": Attack(script={"ranks": 2}, environment={"CI": "true"}, codes=(1, 4)),
    "no JSON for a script": Attack(environment={"BUSBW_FAKE": "{"}, codes=(1, 4)),
    "events are lost": worker(
        device="gpu", clocks=["device", "host"], events_lost=1, cases=[{"slower": 5}]
    ),
}


OF_PYTEST = {
    "-k nothing": options("-k", "nothing"),
    "-m nothing": options("-m", "nothing"),
    "-k the session alone": options("-k", "session"),
    "--deselect": options("--deselect=perf/test_collectives.py"),
    "--ignore": options("--ignore=perf"),
    "--ignore-glob": options("--ignore-glob=*"),
    "--maxfail and -x": options("-x", "--maxfail=1"),
    "--setup-only": options("--setup-only"),
    "--setup-plan": options("--setup-plan"),
    "--lf without a cache": options("--lf"),
    "--ff": options("--ff"),
    "--sw": options("--stepwise", "-p", "cacheprovider"),
    "--runxfail": options("--runxfail"),
    "-q -q -q": options("-qqq"),
    "--tb=no -rN": options("--tb=no", "-rN"),
    "--no-summary": options("--no-summary", "--no-header"),
    "--capture=no": options("-s"),
    "-p no:terminal": options("-p", "no:terminal", codes=(1, 3, 4)),
    "-p no:skipping": options("-p", "no:skipping"),
    "-p no:python": options("-p", "no:python", codes=(1, 3, 4, 5)),
    "-p no:benchmark": options("-p", "no:benchmark"),
    "--assert=plain": options("--assert=plain"),
    "--noconftest": options("--noconftest", codes=(1, 4, 5)),
    "-c elsewhere": options("-c", "/dev/null", "--require-baselines"),
    "--rootdir=/tmp": options("--rootdir=/tmp", "--require-baselines"),
    "--import-mode=importlib": options("--import-mode=importlib"),
    "-W ignore": options("-W", "ignore"),
    "-n 2": options("-n", "2"),
    "-n 1 --dist=no": options("-n", "1", "--dist=no"),
    "--benchmark-skip": options("--benchmark-skip"),
    "--benchmark-only": options("--benchmark-only"),
    "--benchmark-disable": options("--benchmark-disable"),
    "--continue-on-collection-errors": options("--continue-on-collection-errors"),
    "python_functions": Attack(ini={"python_functions": "check_*"}),
    "python_files": Attack(ini={"python_files": "check_*.py"}),
    "collect_ignore by testpaths": Attack(ini={"testpaths": "nowhere"}),
    "addopts -k": Attack(ini={"addopts": "-k nothing"}),
    "addopts --co": Attack(ini={"addopts": "--setup-plan"}),
    "xfail_strict off": Attack(ini={"xfail_strict": "false"}),
    "PYTEST_ADDOPTS -k": Attack(environment={"PYTEST_ADDOPTS": "-k nothing"}),
    "PYTEST_ADDOPTS -n": Attack(environment={"PYTEST_ADDOPTS": "-n 2"}),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": Attack(environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
    "PYTHONOPTIMIZE": Attack(environment={"PYTHONOPTIMIZE": "1"}, codes=(1, 3, 4)),
}
