"""Evidence for the rule: recorded launches, and how often each rule errs on them.

`python -m evidence record|replay|page|pairs`. Standard library and busbw only: no framework, no
statistics package. Nothing here judges a measurement that somebody waits for, and busbw itself
imports none of it.
"""
