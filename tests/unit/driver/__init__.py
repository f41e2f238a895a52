"""The driver with the shipped fake back end: real processes, pipes and deadlines."""
