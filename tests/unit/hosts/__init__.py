"""The agent: real sockets on the loopback, and real processes of the fake back end."""
