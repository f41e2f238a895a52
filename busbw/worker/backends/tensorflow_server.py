"""TensorFlow's server of a process that works for others: a worker or a parameter server.

It never ends by itself: the driver ends its process.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from busbw.model import FailureKind
from busbw.worker import host

from .base import MeasuringError


def started(resolver: Any) -> Any:
    """Listening at the address that `resolver` has for this process.

    Raises MeasuringError UNAVAILABLE where that cannot be had.
    """
    cluster = resolver.cluster_spec()
    options = tf.compat.v1.ConfigProto()
    # Else all threads may wait for other members, where there are fewer cores than those.
    options.inter_op_parallelism_threads = max(host.cores(), cluster.num_tasks("worker") + 1)
    try:
        return tf.distribute.Server(
            cluster,
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
            config=options,
        )
    except tf.errors.OpError as error:
        raise MeasuringError(FailureKind.UNAVAILABLE, str(error)) from error
