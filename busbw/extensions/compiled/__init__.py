"""Compile-only checks: the same programs, compiled for chips that are not attached (`--topology`).

A mode of sessions, whose tests are in `perf/test_compiled.py`: `mode` chooses and runs it,
`compilers` reads its options, `parallel` compiles in several workers, `judge` compares programs
with those of `baselines`, `results` writes and reads its results. Workers have `worker`, and what
`worker_jax` and `worker_fake` have for their framework.
"""

MODES = {"busbw_compiled": "mode:mode_of"}
OPTIONS = {
    "topology": "options:TOPOLOGY",
    "libtpu": "options:LIBTPU",
    "compile_cache": "options:COMPILE_CACHE",
    "accept_compiled_changes": "options:ACCEPT_CHANGES",
}
RESULTS = {"busbw compiled results": "results:session_from"}
WORKER_SERVICES = {"compile": "worker:open_session"}
WORKER_OPERATIONS = {"compile": "worker:compile_case", "describe": "worker:describe"}
NEEDS = ("program",)
