"""Who is slow: hosts measured in pairs at once, and accused only by measurements of their own.

A pure search over whatever measures groups of hosts; `groups` is what does so on hosts.
"""
