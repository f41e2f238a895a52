"""Kill or stop processes of real sessions at random moments.

Each session gets one signal; a table says what that cost. Exit code 1 if a session lost more than
docs/hosts.md allows. Nothing else may run on the machine meanwhile.
"""
