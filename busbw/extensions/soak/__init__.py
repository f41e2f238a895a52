"""Soak tests (`--soak`), the order of summation (`--require-signature`), and health counters.

A soak is a session that compares every result and times nothing: `mode` runs and judges soaks.
`health` reads the health counters of devices in every session, and `signatures` compares the orders
in which sums are added up. In workers, `worker` compares results, `worker_values` computes inputs
and expected results, `worker_health` reads counters, and `worker_signature` reads the order of
summation from a result.
"""

MODES = {"busbw_verdict": "mode:mode_of"}
OPTIONS = {"soak": "options:SOAK", "require_signature": "options:REQUIRE_SIGNATURE"}
OBSERVERS = {"health": "health:observer_of"}
FINDINGS = {"health": "health:finding_at", "signature": "signatures:finding_at"}
VALUES = {
    "health": "health:Health",
    "soak": "worker:Tally",
    "signature": "worker_orders:Signature",
}
FIGURES = {"soak": "mode:FIGURES"}
HOOKS = {"tables": "signatures:order_tables"}
FIRST_CALLS = {"signature": "worker_signature:SignedSum"}
WORKER_SERVICES = {"health": "worker_health:open_session"}
WORKER_OPERATIONS = {"soak": "worker:soak", "health": "worker_health:HealthReader.read"}
