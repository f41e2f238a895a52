"""Attacks by workers: they die, hang, and lie about times, values and themselves."""

from __future__ import annotations

from .attack import Attack, worker


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
