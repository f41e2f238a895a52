"""Real recordings of both frameworks, each made by a process of its own, and read by another one.

The other reader is JAX's own, `jax.profiler.ProfileData`. No test lives here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

CALLS = 3
ROUNDS = 4

JAX = f"""
import sys
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)
mesh = jax.make_mesh((2,), ("x",))
spec = PartitionSpec("x")

def chain(value):
    for _ in range({ROUNDS}):
        value = jax.lax.pcast(jax.lax.psum(value, "x") * 0.5, "x", to="varying")
    return value

call = jax.jit(jax.shard_map(chain, mesh=mesh, in_specs=spec, out_specs=spec))
value = jax.device_put(jnp.ones(2**19, jnp.float32), NamedSharding(mesh, spec))
call(value).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for _ in range({CALLS}):
        call(value).block_until_ready()
"""

# What TensorFlow has not yet closed when the recording stops is not in it.
TENSORFLOW = f"""
import sys, time
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def reduce(value):
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(value))

@tf.function(autograph=False)
def call(values, rounds):
    def body(turn, held):
        return turn + 1, strategy.run(reduce, args=(held,))
    start = (tf.constant(0), values)
    return tf.while_loop(lambda turn, _: turn < rounds, body, start, parallel_iterations=1)[1]

values = strategy.experimental_distribute_values_from_function(lambda _: tf.ones([2**18]))
call(values, tf.constant(1))
tf.profiler.experimental.start(sys.argv[1])
for _ in range({CALLS}):
    result = call(values, tf.constant({ROUNDS}))
    [value.numpy() for value in strategy.experimental_local_results(result)]
time.sleep(0.5)
tf.profiler.experimental.stop()
"""

_READER = """
import json, sys
from jax.profiler import ProfileData

def plain(stats):
    return {key: worth for key, worth in stats if isinstance(worth, (str, int, float))}

rows = [
    [plane.name, line.name, event.name, event.start_ns, event.duration_ns, plain(event.stats)]
    for plane in ProfileData.from_file(sys.argv[1]).planes
    for line in plane.lines
    for event in line.events
]
print("ROWS" + json.dumps(rows))
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An event as JAX's own reader sees it; times in nanoseconds."""

    plane: str
    line: str
    name: str
    start_ns: float
    duration_ns: float
    stats: dict[str, str | int | float]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recording's folder, its xplane file, and what the other reader sees in that."""

    folder: Path
    xplane: Path
    seen: list[Seen]


def record(script: str, folder: Path) -> Recording:
    """Run `script`, which records into `folder`, and read that with JAX."""
    _run(script, str(folder))
    (xplane,) = folder.glob("plugins/profile/*/*.xplane.pb")
    return Recording(folder=folder, xplane=xplane, seen=seen(xplane))


def seen(xplane: Path) -> list[Seen]:
    """Every event of an xplane file, by JAX's own reader."""
    said = next(x for x in _run(_READER, str(xplane)).splitlines() if x.startswith("ROWS"))
    return [
        Seen(plane=plane, line=line, name=name, start_ns=start, duration_ns=duration, stats=stats)
        for plane, line, name, start, duration, stats in json.loads(said.removeprefix("ROWS"))
    ]


def _run(script: str, argument: str) -> str:
    # TensorFlow leaves files of its own where temporary ones go.
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), argument],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**os.environ, **quiet},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
