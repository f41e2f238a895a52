"""List, measure and compare the collectives of a user's own program (`--program`).

A worker process compiles the program, and the module `worker` reads the program's collectives from
the optimized HLO. The module `mode` measures each collective by itself. `mode` also reads files of
optimized HLO, for which no worker process is needed. With `--topology` the extension `compiled`
compares the collectives with the stored collectives of the same program.
"""

COMMANDS = {"program": "report"}
MODES = {"busbw_verdict": "mode:requested_mode"}
OPTIONS = {"program": "options:PROGRAM"}
WORKER_OPERATIONS = {"program": "worker:list_collectives"}
