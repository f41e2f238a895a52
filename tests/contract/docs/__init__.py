"""The pages are true: links resolve, and every command names what exists.

`python -m tests.contract.docs` runs the commands themselves.
"""
