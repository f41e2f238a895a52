"""Reference stacks: locked as they were measured, built again by uv for `--against=baseline`.

A lock is a file of PEP 751 beside the baselines, which pip and uv install, too. uv resolves,
downloads, verifies and installs. This extension decides which packages belong to a stack, and
checks that the installed files are those of their wheels.
"""

COMMANDS = {"stack": "command"}
HOOKS = {
    "build_references": "session:build_references",
    "lock_references": "session:lock_references",
    "session_findings": "session:session_finding",
}
OPTIONS = {"stack_cache": "options:STACK_CACHE"}
