"""Find the release of a package, or the compiler flag, that caused a change: `busbw bisect`.

`bisection` chooses which release between a good release and a bad release is tested next. A
session with the user's options decides whether that release is good. `extensions/stacks` builds the
environments with the releases.
"""

COMMANDS = {"bisect": "command"}
NEEDS = ("stacks",)
