"""Set up TensorFlow's devices in a process, and its clusters of processes on this machine."""

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any


def make_tasks(counts: Mapping[str, int]) -> list[tuple[str, dict[str, str]]]:
    """Return the job and the environment variables of each process of a cluster.

    `counts` is the number of processes by job, such as `{"worker": 2, "ps": 1}`. The environment
    variable TF_CONFIG tells a process the addresses of all processes.
    """
    ports = iter(_find_free_ports(sum(counts.values())))
    addresses = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }
    return [
        (
            job,
            {
                "TF_CONFIG": json.dumps(
                    {"cluster": addresses, "task": {"type": job, "index": index}}
                )
            },
        )
        for job, count in counts.items()
        for index in range(count)
    ]


def start_server() -> tuple[Any, Any]:
    """Start TensorFlow's server in this process; return the server, and its cluster resolver.

    The resolver has read the addresses of all processes from TF_CONFIG.
    """
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    options = tf.compat.v1.ConfigProto()
    # With only as many threads as a machine of few cores has, all could wait for other processes.
    options.inter_op_parallelism_threads = 8
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        config=options,
    )
    return server, resolver


def serve_until_killed() -> None:
    """Run TensorFlow's server in this process until the process is killed."""
    server, _ = start_server()
    server.join()


def device_names(ranks: int) -> list[str]:
    """Return the names of `ranks` devices: GPUs if enough are attached, else virtual CPUs."""
    import tensorflow as tf

    if len(tf.config.list_physical_devices("GPU")) >= ranks:
        return [f"/gpu:{index}" for index in range(ranks)]
    cpu = tf.config.list_physical_devices("CPU")[0]
    configuration = [tf.config.LogicalDeviceConfiguration()] * ranks
    tf.config.set_logical_device_configuration(cpu, configuration)
    return [f"/cpu:{index}" for index in range(ranks)]


def _find_free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nothing listens."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
