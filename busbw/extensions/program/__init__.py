"""The collectives of a user's own program (`--program`): they are listed, measured and compared.

A worker compiles the program, and `worker` reads its collectives from the optimized HLO.
`mode` measures each collective by itself. `mode` also reads files of optimized HLO, for which no
worker is needed. With `--topology` the extension `compiled` compares the collectives with the
stored collectives of the same program.
"""

COMMANDS = {"program": "report"}
MODES = {"busbw_verdict": "mode:mode_of"}
OPTIONS = {"program": "options:PROGRAM"}
WORKER_OPERATIONS = {"program": "worker:list_collectives"}
