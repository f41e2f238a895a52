"""Hosts on one machine: what several hosts are tried with where there is only one.

Network namespaces stand for hosts, a relay for the network between them, and Slurm, sshd and Open
MPI are Debian's. Most of it needs root: `tox -e hosts` runs it, `pytest tests/` skips it by name.
"""
