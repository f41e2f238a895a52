"""What optimised HLO says of a program: its collectives, how often each runs in a step, and where.

Text in, values out; standard library only. What a measured program must hold is proved in the back
ends.
"""
