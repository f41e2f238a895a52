"""What busbw once gave, kept: sessions with the baselines they were judged by, and baseline files.

`sessions.jsonl.gz` has a line for each of some 130 sessions: what the judge was given, the results
that were written, and the files below the baselines folder before it. `baselines.jsonl.gz` has the
files that such sessions wrote. However the code changes, the same must come of them.
"""
