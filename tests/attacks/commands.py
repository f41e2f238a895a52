"""Attacks by options, ini files and variables of the environment."""

from __future__ import annotations

from .attack import CANARY, Attack, options, usage

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
