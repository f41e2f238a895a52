"""A host's part in a session: it starts workers when told to, and sends back what they say.

The session listens and an agent connects to it; both prove that they know the secret. The driver
uses the same rooms for workers that it starts itself. Standard library only, Python 3.10: an agent
may run where nothing else is installed. Knows no framework, no case and no verdict.
"""
