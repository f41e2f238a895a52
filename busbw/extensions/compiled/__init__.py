"""Compile-only checks: the same programs, compiled for chips that are not attached (`--topology`).

`worker` compiles in worker processes, with what `worker_jax` and `worker_fake` have for their
framework.
"""

WORKER_SERVICES = {"compile": "worker:open_session"}
WORKER_OPERATIONS = {"compile": "worker:compile_case", "describe": "worker:describe"}
