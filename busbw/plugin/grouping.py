"""The groups in which --help shows the options: of one list of them nobody finds anything."""

from __future__ import annotations

# Names and titles, and which options are not in the first one.
GROUPS = {
    "busbw": ("busbw: what is measured, and what is written", ""),
    "busbw compare": (
        "busbw: what it is compared with",
        "time_budget fail_above inject baselines stack_cache against against_env try_env",
    ),
    "busbw hosts": (
        "busbw: processes and hosts",
        "processes ranks_per_process agents listen secret_file hosts host_python host_env "
        "agents_wait",
    ),
    "busbw compile": ("busbw: compile, measure nothing", "topology libtpu compile_cache"),
}


def group_of(option: str) -> str:
    return next((name for name, (_, those) in GROUPS.items() if option in those.split()), "busbw")
