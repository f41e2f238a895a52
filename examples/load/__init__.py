"""An example of an extension: `--show-load` shows the load of the machine after each case.

Copy this folder to `busbw/extensions/load`. The extension has an option, an operation of workers, a
column, and a line at the end of the session; `busbw.extensions` describes its tables.
"""

OPTIONS = {"show_load": "options:SHOW_LOAD"}
OBSERVERS = {"loads": "load:make_observer"}
FINDINGS = {"load": "load:finding_at"}
VALUES = {"loads": "load:Loads", "load": "load:Load"}
COLUMNS = {"load": "load:COLUMNS"}
HOOKS = {"notes": "load:notes_of"}
WORKER_SERVICES = {"load": "worker:make_worker_state"}
WORKER_OPERATIONS = {"load": "worker:read_load"}
