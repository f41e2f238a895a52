"""What a worker can do besides measuring, a file for each operation.

None of it takes part in a measured time. What a single framework has for an operation is a file of
the same name in the folder of its back end.
"""
