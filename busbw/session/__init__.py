"""A session without pytest: functions of frozen values, from the options to the written files.

Each step makes a value, and most of these values are in `state.py`. A step is in the file that is
named here:

1. `command_line` makes Options from the command line and the ini file.
2. The Mode of the session (`run`) has the first CollectedSession, and selects the cases.
3. `machine` probes the devices, and returns a Machine.
4. `resolve` makes a job of each case, with its stored times and the levels of the machines, and
   returns a MeasuredSession.
5. `measure` adds the measurements to the MeasuredSession.
6. `judge` returns a JudgedSession with the verdicts.
7. `accept` stores accepted times, and `record` writes the history and the requested files.

The plugin calls steps 1 and 2. `run.run_session` calls steps 3 to 6, and `run.accept_and_write`
calls step 7.
"""
