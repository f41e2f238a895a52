"""Measure on several hosts, which `--hosts` reaches by ssh and `--cluster` by a Dask scheduler.

A session sends the files of busbw to each host, so that busbw need not be installed on the host. On
each host an object of the class Host starts worker processes, as a session does on its own machine.
The package execnet carries requests from the session to each Host, over a connection that an engine
makes: `over_ssh` or `over_dask`.
"""

HOOKS = {"hosts_of": "settings:hosts_of", "check_host": "settings:check_can_measure_alone"}
OPTIONS = {
    "hosts": "options:HOSTS",
    "host_python": "options:HOST_PYTHON",
    "cluster": "options:CLUSTER",
    "cluster_trust_network": "options:CLUSTER_TRUST_NETWORK",
}
