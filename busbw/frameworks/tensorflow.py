"""The framework TensorFlow, with the all-reduce of `tf.distribute`: sums over all replicas."""

from __future__ import annotations

from busbw.model.case import Framework

# TensorFlow's ring on a CPU allocates its output in every all-reduce. With oneDNN, as in everyday
# use, TensorFlow's allocator keeps the memory. Without oneDNN every all-reduce would also measure
# the page faults of new memory.
_VARIABLES = {
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}

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
    strategy_of_other_collectives="tensorflow",
    pip_extra="tf",
    packages=("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "libtpu"),
    has_only_sums=True,
    environment=_VARIABLES,
)
