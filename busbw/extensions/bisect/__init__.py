"""Find the release or the flag that caused a change: `busbw bisect`.

`search` knows no package: it asks for the releases between a good and a bad one. A session with the
user's options decides whether a release is good. `extensions/stacks` builds the environments.
"""

COMMANDS = {"bisect": "command"}
NEEDS = ("stacks",)
