"""Hosts that take part in a session: agents, ssh and launchers. A host is what starts workers.

The session listens and an agent connects to it; both prove that they know the secret. What an agent
is made of keeps to the standard library and Python 3.11: it runs where nothing else is installed.
Knows no framework, no case and no verdict.
"""
