"""TensorFlow: the all-reduce of `tf.distribute`, which has sums over all replicas."""

from __future__ import annotations

from busbw.model.words import Capability
from busbw.model.workload import Framework
from busbw.workloads.dense_step import DenseStep
from busbw.workloads.training import Training

# TensorFlow's CPU ring allocates its output each time. With oneDNN its allocator keeps the
# memory, as in everyday use; without, every all-reduce would fault its pages in again.
_ALWAYS = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
_ON_GPUS = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
# A server that has ended is an error at once, instead of a wait until it comes back.
_WITH_SERVERS = {"GRPC_FAIL_FAST": "use_caller"}

FRAMEWORK = Framework(
    name="tensorflow",
    strategies=(
        "default",
        "ring",
        "reduction_to_one_device",
        "hierarchical_copy",
        "nccl",
        "collective_nccl",
        "tpu",
    ),
    only_strategy="tensorflow",
    workloads=(DenseStep, Training),
    ring="ring",
    extra="tf",
    packages=("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "libtpu"),
    oldest="2.16",
    only_sums=True,
    learns_digits=True,
    injects=False,
    environment={
        Capability.MEASURE: {**_ALWAYS, **_ON_GPUS},
        Capability.TRAIN: {**_ALWAYS, **_ON_GPUS, **_WITH_SERVERS},
    },
)
