"""Whether the selected tests can do what --inject asks for: said before anything is measured.

A slowdown that no selected case gets would be a trial of the gate that tries nothing. The back ends
refuse the same, for a worker takes requests from anyone.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.frameworks import FRAMEWORKS
from busbw.model import Clock, Extra, Injection, OwnProcesses, Spec, payload_text


def refused(injection: Injection, specs: Sequence[Spec]) -> str:
    """Why `injection` is nothing for one of `specs`, the selected cases; empty if it is fine."""
    # Training in groups of processes is skipped beside an injection, and says so.
    able = [spec for spec in specs if not isinstance(spec.workload, OwnProcesses)]
    sizes = sorted({spec.payload_bytes for spec in able})
    for size in injection.payloads:
        if size not in sizes:
            there = ", ".join(map(payload_text, sizes)) or "none"
            return (
                f"--inject: {payload_text(size)} is no payload of the selected tests; "
                f"they have {there}"
            )
    meant = [s for s in able if not injection.payloads or s.payload_bytes in injection.payloads]
    reasons = (_unable(injection, spec) for spec in meant)
    return next((f"--inject: {reason}" for reason in reasons if reason), "")


def _unable(injection: Injection, spec: Spec) -> str:
    """Why the program of `spec` cannot do it; empty where it can."""
    name = injection.extra.value
    if injection.extra not in (Extra.DELAY, Extra.PAYLOAD) or FRAMEWORKS[spec.framework].scripted:
        return ""
    if not FRAMEWORKS[spec.framework].injects:
        return (
            f"TensorFlow's program cannot do a {name}; it takes sleep and memory, or leave it out: "
            "--frameworks=jax"
        )
    if spec.clock == Clock.DISPATCH.value:
        return f"a {name} is for chains, not for the single calls of --clock=dispatch"
    if injection.extra is Extra.PAYLOAD and spec.collective != "all_reduce":
        return f"a second collective is for all-reduces only, not for {spec.collective}"
    if injection.extra is Extra.PAYLOAD and (injection.share or 0.0) >= 1:
        return f"{injection.text} is no part of a payload; accepted is less than 100%"
    return ""
