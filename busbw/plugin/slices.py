"""Why a session on one host of a TPU slice cannot measure, and what does.

How many hosts a slice has is known in `launchers`.
"""

from __future__ import annotations


def words(hosts: int, source: str) -> str:
    return (
        f"this host is one of {hosts} of its TPU slice ({source}), and would wait for the others "
        "for ever; did you run on all hosts? Start `python -m busbw run perf/` with the same "
        f"options on all of them; or run it with --processes={hosts} --agents={hosts}, and "
        "`python -m busbw agent` on each host; this host alone has TPU_PROCESS_BOUNDS=1,1,1 and "
        "TPU_VISIBLE_CHIPS"
    )
