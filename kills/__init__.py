"""What a kill costs: real sessions in which a process is killed or stopped at a random moment.

No test: what it finds must be fixed, and then tested there. busbw imports none of it.
"""
