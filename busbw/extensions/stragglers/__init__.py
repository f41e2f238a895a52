"""Find slow hosts, links and chips: `busbw find-slow`.

Hosts are measured in pairs, many pairs at once. `search` decides which group is measured next, and
`groups` measures it on hosts. A candidate is named only after measurements of its own.
"""

COMMANDS = {"find-slow": "command"}
HOOKS = {"notes": "note:notes_of"}
WORKER_OPERATIONS = {"chips": "worker:chips"}
