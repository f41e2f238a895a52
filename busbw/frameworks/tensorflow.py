"""TensorFlow: the all-reduce of `tf.distribute`, which has sums over all replicas."""

from __future__ import annotations

from busbw.model import CNN, DENSE

from .base import Framework

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
    steps=(DENSE, CNN),
    ring="ring",
    extra="tf",
    only_sums=True,
    learns_digits=True,
    injects=False,
)
