"""Lock the measured stack as a reference, and build it again for `--against=baseline`.

A lock is a file in the format of PEP 751 beside the baselines. pip and uv can install packages from
a lock. Here uv (a program that installs packages) resolves, downloads, verifies and installs the
packages. This extension decides which packages belong to a stack, and checks that the installed
files are the files of the packages' wheels.
"""

COMMANDS = {"stack": "reference"}
HOOKS = {
    "build_stack": "reference:build_stack",
    "lock_stack": "reference:lock_stack",
    "session_findings": "reference:add_machine_judgements",
}
