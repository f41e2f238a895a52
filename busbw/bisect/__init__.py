"""Which release did it: the releases of a package between a good one and a bad one, each a stack.

The search knows no package; what a step shows is decided by a session with the user's options.
"""
