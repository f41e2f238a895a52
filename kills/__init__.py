"""What a kill costs: real sessions in which a process is killed or stopped at a random moment.

`python -m kills` writes docs/kills.md. Standard library, pytest and busbw only; busbw imports none
of it. It is no test: what it finds must be fixed, and then tested there.
"""
