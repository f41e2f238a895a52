"""Find slow hosts, links and chips (`busbw find-slow`).

Hosts are measured in pairs, many pairs at once. `search` decides which hosts are measured next, and
`groups` measures these hosts. A host or link that seems slow is reported only after a test with
further measurements. The chips of the hosts are timed, too.
"""

COMMANDS = {"find-slow": "command"}
HOOKS = {"notes": "result:recommend_find_slow"}
# Only these frameworks measure single chips, and the directions of a link between hosts.
WORKER_OPERATIONS = {
    "chips_jax": "worker_jax:measure_chips",
    "chips_fake": "worker:simulate_chips",
    "directions_jax": "worker_jax:measure_directions",
}
