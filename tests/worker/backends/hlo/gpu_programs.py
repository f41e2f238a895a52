"""Optimised HLO as XLA wrote it for four H100 that are not there, cut to what matters.

Metadata, conditions of loops and what a back end's configuration says of other things are left out.
"""

from __future__ import annotations


def config(kernel: str = "DEFAULT", *, is_sync: bool) -> str:
    """What XLA for GPUs writes of a collective, all fields that are at their defaults included."""
    return (
        'backend_config={"operation_queue_id":"0","collective_backend_config":{"is_sync":'
        f'{str(is_sync).lower()},"is_pipelined":false,"backend":"DEFAULT",'
        f'"collectives_mode":"COLLECTIVES_MODE_INVALID","kernel_strategy":"KERNEL_STRATEGY_{kernel}"'
        '},"force_earliest_schedule":false,"device_type":"DEVICE_TYPE_INVALID"}'
    )


COUNT = (
    "%loop_add_fusion = s32[] fusion(%get-tuple-element.26), kind=kLoop, calls=%fused_add, "
    'backend_config={"operation_queue_id":"0","device_type":"DEVICE_TYPE_INVALID"}'
)

_PROGRAM = """\
HloModule jit__chained, is_scheduled=true, num_partitions=4

%fused_add (param_0: s32[]) -> s32[] {{
  %param_0 = s32[] parameter(0)
  %constant_0_clone_2 = s32[] constant(1)
  ROOT %add.4.1 = s32[] add(%param_0, %constant_0_clone_2)
}}

%region_1.0 (psum_invariant.0: f32[], psum_invariant.1: f32[]) -> f32[] {{
  %psum_invariant.1 = f32[] parameter(1)
  %psum_invariant.0 = f32[] parameter(0)
  ROOT %add.2.0 = f32[] add(%psum_invariant.0, %psum_invariant.1)
}}

%region_0.0_spmd (param: (s32[], f32[1024], f32[1024], s32[])) -> (s32[], f32[1024], f32[1024], \
s32[]) {{
  %param = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) parameter(0)
  %get-tuple-element.26 = s32[] get-tuple-element(%param), index=0
  %get-tuple-element.27 = f32[1024]{{0}} get-tuple-element(%param), index=1
{body}
  ROOT %tuple.14 = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) tuple(%loop_add_fusion, %param)
}}

ENTRY %main.0_spmd (param.4: s32[], param.5: f32[1024]) -> (s32[], f32[1024]) {{
  %constant_1_clone_1_0 = s32[] constant(0)
  %copy.14 = s32[] copy(%constant_1_clone_1_0)
  %param.4 = s32[] parameter(0), sharding={{replicated}}
  %param.5 = f32[1024]{{0}} parameter(1), sharding={{devices=[4]<=[4]}}
{entry}
  %tuple.12 = (s32[], f32[1024]{{0}}, s32[]) tuple(%copy.14, %param.5, %param.4)
  %while.9 = (s32[], f32[1024]{{0}}, s32[]) while(%tuple.12), condition=%region_2.0_spmd, \
body=%region_0.0_spmd
  %get-tuple-element.33 = f32[1024]{{0}} get-tuple-element(%while.9), index=1
  ROOT %tuple.15 = (s32[], f32[1024]{{0}}) tuple(%copy.14, %get-tuple-element.33)
}}
"""


def gpu(*body: str, entry: tuple[str, ...] = ()) -> str:
    """The chain with these lines in its loop, and these in the entry before it."""
    return _PROGRAM.format(
        body="\n".join("  " + line for line in body),
        entry="\n".join("  " + line for line in entry),
    )


def started(kernel: str = "DEFAULT", *, of: str = "get-tuple-element.27", is_sync: bool) -> str:
    """The start of an all-reduce, which has the shape of its result."""
    return (
        f"%all-reduce-start = f32[1024]{{0}} all-reduce-start(%{of}), channel_id=1, "
        "replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.0, "
        + config(kernel, is_sync=is_sync)
    )


DONE = "%all-reduce-done = f32[1024]{0} all-reduce-done(%all-reduce-start)"

# The round is counted while the all-reduce runs.
IN_PLACE = gpu(started("TRITON_ONE_SHOT", is_sync=False), COUNT, DONE)

# An A100 has it otherwise.
WAITED_FOR = gpu(started(is_sync=True), DONE, COUNT)

COPY = "%copy.6 = f32[1024]{0} copy(%get-tuple-element.27)"
OUT_OF_PLACE = gpu(COPY, started("TRITON_ONE_SHOT", of="copy.6", is_sync=True), DONE, COUNT)

# With buffers of the library's own, in a memory that is not the main one.
OWN_BUFFERS = gpu(
    started("TRITON_ONE_SHOT", is_sync=False).replace("f32[1024]{0}", "f32[1024]{0:S(1)}"),
    COUNT,
    DONE.replace("f32[1024]{0}", "f32[1024]{0:S(1)}"),
    entry=("%copy.15 = f32[1024]{0:S(1)} copy(%param.5)",),
)

_GROUPS = "channel_id=1, replica_groups={{0,1,2,3}}"

ALL_GATHER = gpu(
    "%get-tuple-element.17 = f32[256]{0} get-tuple-element(%param), index=1",
    "%all-gather-start = (f32[256]{0}, f32[1024]{0}) all-gather-start(%get-tuple-element.17), "
    f"{_GROUPS}, dimensions={{0}}, use_global_device_ids=true, {config(is_sync=True)}",
    "%all-gather-done = f32[1024]{0} all-gather-done(%all-gather-start)",
    COUNT,
)

REDUCE_SCATTER = gpu(
    "%bitcast.2 = f32[8,128]{1,0} bitcast(%get-tuple-element.27)",
    "%reduce-scatter-start = ((f32[8,128]{1,0}), f32[2,128]{1,0}) "
    f"reduce-scatter-start(%bitcast.2), {_GROUPS}, use_global_device_ids=true, dimensions={{0}}, "
    f"to_apply=%region_1.0, {config(is_sync=True)}",
    "%reduce-scatter-done = f32[2,128]{1,0} reduce-scatter-done(%reduce-scatter-start)",
    "%bitcast.1.0 = f32[256]{0} bitcast(%reduce-scatter-done)",
    COUNT,
)

ALL_TO_ALL = gpu(
    "%all-to-all-start = ((f32[1024]{0}), f32[1024]{0}) all-to-all-start(%get-tuple-element.27), "
    f"{_GROUPS}, dimensions={{0}}, {config(is_sync=True)}",
    "%all-to-all-done = f32[1024]{0} all-to-all-done(%all-to-all-start)",
    COUNT,
)

PERMUTE = gpu(
    "%collective-permute-start = (f32[1024]{0}, f32[1024]{0}) "
    "collective-permute-start(%get-tuple-element.27), channel_id=1, "
    f"source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}, {config(is_sync=True)}",
    "%collective-permute-done = f32[1024]{0} collective-permute-done(%collective-permute-start)",
    COUNT,
)

# XLA may be told to gather everything everywhere and to sum it there.
DECOMPOSED = gpu(
    "%bitcast.1 = f32[1,1024]{1,0} bitcast(%get-tuple-element.27)",
    "%all-gather-start = (f32[1,1024]{1,0}, f32[4,1024]{1,0}) all-gather-start(%bitcast.1), "
    f"{_GROUPS}, dimensions={{0}}, use_global_device_ids=true, {config(is_sync=True)}",
    "%all-gather-done = f32[4,1024]{1,0} all-gather-done(%all-gather-start)",
    "%input_reduce_fusion = f32[1024]{0} fusion(%all-gather-done), kind=kInput, "
    "calls=%fused_reduce",
    COUNT,
)

# Or in steps: within parts of the ranks, and then across them.
IN_STEPS = gpu(
    "%reduce-scatter-start = ((f32[1024]{0}), f32[512]{0}) "
    "reduce-scatter-start(%get-tuple-element.27), channel_id=2, "
    "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, dimensions={0}, "
    f"to_apply=%region_1.0, {config(is_sync=True)}",
    "%reduce-scatter-done = f32[512]{0} reduce-scatter-done(%reduce-scatter-start)",
    "%all-reduce-start = f32[512]{0} all-reduce-start(%reduce-scatter-done), channel_id=3, "
    "replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=%region_1.0, "
    + config(is_sync=True),
    "%all-reduce-done = f32[512]{0} all-reduce-done(%all-reduce-start)",
    "%all-gather-start = (f32[512]{0}, f32[1024]{0}) all-gather-start(%all-reduce-done), "
    "channel_id=4, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true, "
    + config(is_sync=True),
    "%all-gather-done = f32[1024]{0} all-gather-done(%all-gather-start)",
    COUNT,
)
