"""The history: a line for each case of each session, with its times, verdict and stack.

Lines are only ever appended, and the lines of a session are written together. Files are read as
strictly as baselines. `files` appends and reads lines, `levels` finds the levels of cases over
time, and `texts` describes failures and changes of levels. No case is judged here.
"""
