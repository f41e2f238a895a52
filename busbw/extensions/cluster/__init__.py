"""Measure on several hosts: `--hosts` reaches them by ssh, `--cluster` by a Dask scheduler.

A session sends the files of busbw to each host, so that it need not be installed there. On each
host an object of the class Host starts worker processes, as a session does on its own machine.
execnet carries requests from the session to the Hosts, over a connection that an engine makes:
`over_ssh` or `over_dask`.
"""

HOOKS = {"hosts_of": "settings:hosts_of", "check_host": "settings:check_can_measure_alone"}
OPTIONS = {
    "hosts": "options:HOSTS",
    "host_python": "options:HOST_PYTHON",
    "host_env": "options:HOST_ENV",
    "cluster": "options:CLUSTER",
    "cluster_trust_network": "options:CLUSTER_TRUST_NETWORK",
}
