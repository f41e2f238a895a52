"""Compile-only checks (`--topology`): compile programs of cases for chips that are not attached.

The tests of this session mode are in `perf/test_compiled.py`. The module `mode` checks the options,
and runs the steps of a session. `compilers` compiles in several worker processes, which run
`worker` and a module for the framework. `judge` compares the compiled programs with the programs
that are stored with the baselines. `results` shows, writes and reads the results.
"""

MODES = {"busbw_compiled": "mode:requested_mode"}
OPTIONS = {
    "topology": "options:TOPOLOGY",
    "libtpu": "options:LIBTPU",
    "compile_cache": "options:COMPILE_CACHE",
    "accept_compiled_changes": "options:ACCEPT_CHANGES",
}
RESULTS = {"busbw compiled results": "results:CompiledResults"}
WORKER_SERVICES = {"compile": "worker:make_worker_state"}
WORKER_OPERATIONS = {"compile": "worker:compile_case", "describe": "worker:describe_compiler"}
NEEDS = ("program",)
