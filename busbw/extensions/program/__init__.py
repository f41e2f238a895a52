"""The collectives of a program: `--program` lists, measures and compares those of a user's step.

Workers read what a compiler made of the program (`worker_inventory`). `mode` measures each
collective by itself; with `--topology`, the extension `compiled` compares all of them with stored
ones. `dumps` reads files of optimized HLO in place of a program.
"""

COMMANDS = {"program": "command"}
MODES = {"busbw_verdict": "mode:mode_of"}
OPTIONS = {"program": "options:PROGRAM"}
WORKER_OPERATIONS = {"program": "worker:list_collectives"}
