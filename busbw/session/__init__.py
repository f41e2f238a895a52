"""A session without pytest: the phases as functions of frozen values, from options to what is kept.

Collected → Observed → Judged. Whoever runs a session hands in what was given, which of the
collected Specs are selected, and a screen.
"""
