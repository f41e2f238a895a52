"""Soak tests (`--soak`), the order of summation (`--require-signature`), and health counters.

A soak is a session that compares every result and times nothing: `mode` runs and judges soaks.
`findings` reads the health counters of devices in every session, and compares the orders in which
sums are added up. In workers, `worker_comparison` compares results, `worker_health` reads
counters, and `worker_signature` reads the order of summation from a result.
"""

MODES = {"busbw_verdict": "mode:requested_mode"}
OPTIONS = {"soak": "options:SOAK", "require_signature": "options:REQUIRE_SIGNATURE"}
OBSERVERS = {"health": "findings:make_observer"}
FINDINGS = {"health": "findings:health_finding", "signature": "findings:signature_finding"}
VALUES = {
    "health": "findings:Health",
    "soak": "worker_comparison:Tally",
    "signature": "findings:Signature",
}
FIGURES = {"soak": "mode:FIGURES"}
HOOKS = {"tables": "findings:order_tables"}
FIRST_CALLS = {"signature": "worker_signature:SummationOrderReader"}
WORKER_SERVICES = {"health": "worker_health:HealthReader"}
WORKER_OPERATIONS = {"soak": "worker_comparison:soak", "health": "worker_health:HealthReader.read"}
