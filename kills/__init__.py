"""What a kill costs: real sessions in which a process is killed or stopped at a random moment.

`python -m kills` writes docs/kills.md, and with --layout=hosts what faults of hosts and links cost.
Standard library, pytest, busbw, and tests.hosts for the hosts; busbw imports none of it. It is no
test: what it finds must be fixed, and then tested there.
"""
