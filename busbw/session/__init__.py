"""A session without pytest: functions of frozen values, from the options to the written files.

The values are Collected → Observed → Judged (`state.py`). The caller of `run.run_session` passes
the collected session, the selected Specs, and a Display for the progress.
"""
