"""Reference stacks: locked as they were measured, built again by uv for `--against=baseline`.

A lock is a file of PEP 751 beside the baselines, which pip and uv install, too. uv resolves,
downloads, verifies and installs. This extension decides which packages belong to a stack, and
checks that the installed files are those of their wheels.
"""

COMMANDS = {"stack": "command"}
HOOKS = {
    "check_reference": "reference:check",
    "build_reference": "reference:build",
    "lock_reference": "reference:lock",
    "judge_machine": "machine:judge_machine",
}
