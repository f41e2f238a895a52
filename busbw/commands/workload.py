"""What a step exchanges and computes, from options: gradients by model, count, shapes or bytes."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from busbw import baselines, costmodel
from busbw.model import MOST_BYTES

# More would take longer to count than to send.
_MOST_BUCKETS = 10_000


class AskedWrongly(ValueError):
    """Options or files that make no question; the message is the sentence that the user reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One step: `buckets` are bytes in the order of sending, none where all go at once.

    `parameters` is None where only bytes are known, `compute_s` where it was not said.
    """

    name: str
    payload_bytes: float
    buckets: tuple[float, ...] = ()
    parameters: int | None = None
    dtype: str = ""
    compute_s: float | None = None
    overlap: float = 0.0

    def communication_s(self, seconds_of: Callable[[float], float]) -> float:
        """All that is sent, one after another."""
        return sum(map(seconds_of, self.buckets)) or seconds_of(self.payload_bytes)

    def step_s(self, seconds_of: Callable[[float], float]) -> float:
        """The step; there must be a `compute_s`."""
        assert self.compute_s is not None
        # Most buckets are alike.
        seconds_of = functools.cache(seconds_of)
        if self.buckets:
            return costmodel.bucketed_step_s(self.buckets, seconds_of, self.compute_s, self.overlap)
        return costmodel.step_s(seconds_of(self.payload_bytes), self.compute_s, self.overlap)


def workload_of(options: argparse.Namespace) -> Workload:
    """Raises AskedWrongly."""
    if options.compute is None:
        for name in ("overlap", "want_efficiency"):
            if getattr(options, name) is not None:
                raise AskedWrongly(f"--{name.replace('_', '-')} needs --compute")
    name, tensors, dtype = _gradients(options)
    element_bytes = costmodel.DTYPE_BYTES[dtype] if dtype else 1
    values = sum(tensors)
    return Workload(
        name=name,
        payload_bytes=values * element_bytes,
        buckets=_buckets(options.bucket, [one * element_bytes for one in tensors]),
        parameters=int(values) if dtype else None,
        dtype=dtype,
        compute_s=options.compute,
        overlap=options.overlap or 0.0,
    )


def _gradients(options: argparse.Namespace) -> tuple[str, list[float], str]:
    """A name, how many values each tensor has (bytes where no dtype is known), the dtype."""
    if options.gradient_bytes is not None:
        if options.dtype is not None:
            raise AskedWrongly("--dtype says nothing of --gradient-bytes, which are bytes")
        return "gradients", [options.gradient_bytes], ""
    dtype = options.dtype or "float32"
    if options.model is not None:
        model = _model(options.model)
        return model.name, [float(model.parameters or 0)], dtype
    if options.shapes is not None:
        return options.shapes.name, _counted(options.shapes), dtype
    return "parameters", [float(options.parameters)], dtype


def _model(name: str) -> costmodel.Model:
    model = costmodel.model_of(name)
    if model is None:
        known = ", ".join(one.name for one in costmodel.MODELS)
        raise AskedWrongly(f"--model={name}: not known; known are {known}")
    if model.parameters is None:
        raise AskedWrongly(
            f"--model={name}: its number of parameters is unknown ({model.source}); "
            "say --parameters or --shapes"
        )
    return model


def _counted(path: Path) -> list[float]:
    try:
        shapes = baselines.read_json(path)
    except baselines.BaselineError as error:
        raise AskedWrongly(str(error)) from error
    if not isinstance(shapes, dict) or not shapes:
        raise AskedWrongly(f'{path}: expected an object of shapes such as {{"w": [512, 512]}}')
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(one) is int and one > 0 for one in shape):
            raise AskedWrongly(f"{path}: {name}: expected a list of whole numbers above 0")
    counts = costmodel.parameters_of(shapes).values()
    if sum(counts) > MOST_BYTES:
        raise AskedWrongly(f"{path}: more than {MOST_BYTES:g} parameters are absurd")
    return [float(count) for count in counts]


def _buckets(bucket_bytes: float | None, tensors: list[float]) -> tuple[float, ...]:
    if bucket_bytes is None:
        return ()
    if sum(tensors) / bucket_bytes > _MOST_BUCKETS:
        raise AskedWrongly(f"--bucket: more than {_MOST_BUCKETS} buckets are absurd")
    if len(tensors) == 1:
        return costmodel.even_buckets(tensors[0], bucket_bytes)
    return costmodel.buckets_of(tensors, bucket_bytes)
