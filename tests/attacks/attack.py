"""Attacks on a repository in which a case is five times slower than accepted.

By options, ini files and variables, and by workers that die, hang and lie; `conftests` and `stored`
have others. Whatever it is, the session is not green, and nothing that was stored is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.plugin.folder import Folder

# Made by code of an attack that is run, which none may be.
CANARY = "canary"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """`conftest` stands in perf/, `ini` in pytest.ini; `do` changes what is stored, or the folder.

    `script` is played by the fake back end, in which the case is five times slower unless it says
    otherwise. `codes` are the exit codes that tell of it: 1 failed, 2 interrupted, 3 an error of
    pytest's, 4 a usage error, 5 no tests. `says` is in the output.
    """

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    conftest: str = ""
    ini: Mapping[str, str] = field(default_factory=dict)
    do: Callable[[Folder], None] = lambda folder: None
    script: Mapping[str, object] = field(default_factory=dict)
    codes: tuple[int, ...] = (1, 2, 4, 5)
    says: str = ""


def options(*given: str, codes: tuple[int, ...] = (1, 4, 5), says: str = "") -> Attack:
    """Options alone."""
    return Attack(options=given, codes=codes, says=says)


def usage(*given: str) -> Attack:
    """Options that are a usage error."""
    return Attack(options=given, codes=(4,), says="ERROR: ")


def hook(text: str, codes: tuple[int, ...] = (1, 2, 4, 5)) -> Attack:
    """A conftest.py."""
    return Attack(conftest=f"import pytest\n\n{text}", codes=codes)


def written(folder: Folder, name: str) -> Path:
    """The only file below `name`."""
    (path,) = (one for one in (folder.path / name).rglob("*.json*") if one.is_file())
    return path


def baseline(change: Callable[[str], str]) -> Attack:
    """The file of the baselines, changed as text."""

    def do(folder: Folder) -> None:
        path = written(folder, "baselines")
        path.write_text(change(path.read_text()))

    return Attack(options=("--require-baselines",), do=do, codes=(1, 4))


def edited(change: Callable[[dict[str, Any]], object]) -> Attack:
    """The file of the baselines, changed as JSON."""

    def changed(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return baseline(changed)


def worker(**script: object) -> Attack:
    """A worker that dies, hangs or lies."""
    return Attack(script=script, codes=(1,))


def _then(what: str) -> Attack:
    return worker(cases=[{"then": what}])


WORKERS = {
    **{f"a case ends in {what}": _then(what) for what in ("kill", "segfault", "exit")},
    **{f"a case gives {what}": _then(what) for what in ("wrong_result", "not_a_collective")},
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


_EMPTY = (
    "agents",
    "against",
    "against-env",
    "axes",
    "baselines",
    "collectives",
    "device",
    "dtypes",
    "frameworks",
    "history",
    "host-env",
    "host-python",
    "hosts",
    "inject",
    "launches",
    "libtpu",
    "listen",
    "memory-limit",
    "mesh",
    "page",
    "payloads",
    "processes",
    "ranks",
    "results",
    "secret-file",
    "stack-cache",
    "topology",
)

EMPTY = {f"--{name}= (empty)": usage(f"--{name}=") for name in _EMPTY}

IMPOSSIBLE = {
    text: usage(text)
    for text in (
        "--payloads=0",
        "--payloads=-1K",
        "--payloads=1K:",
        "--payloads=many",
        "--launches=0",
        "--launches=-3",
        "--launches=1e9",
        "--ranks=0",
        "--ranks=four",
        "--device=toaster",
        "--frameworks=none",
        "--dtypes=float1",
        "--collectives=all_reduc",
        "--fail-above=-5%",
        "--fail-above=nan",
        "--fail-above=0.5x",
        "--inject=delay:soon",
        "--time-budget=0",
        "--hosts=@/dev/zero",
        "--hosts=-oProxyCommand=x",
        "--history=/dev/null/x",
        "--baselines=/proc/none",
    )
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

EXECUTED = {
    "a shell in --hosts": usage(f"--hosts=a;touch {CANARY}"),
    "a shell in --host-python": Attack(
        options=("--hosts=localhost", f"--host-python=$(touch {CANARY})"), codes=(1, 4)
    ),
    "a shell in --python": usage(f"--python=jax=$(touch {CANARY})"),
    "a shell in --against": usage(f"--against=touch {CANARY}"),
}
