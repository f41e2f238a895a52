"""Optimised HLO as XLA wrote it for four CPU devices, TPU v5e or H100, cut to what matters.

Metadata, layouts of the entry and conditions of loops are left out, and what a back end's
configuration says of other things.
"""

from __future__ import annotations

ADD = """\
%region_1.0 (psum_invariant.0: f32[], psum_invariant.1: f32[]) -> f32[] {
  %psum_invariant.0 = f32[] parameter(0)
  %psum_invariant.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%psum_invariant.0, %psum_invariant.1)
}
"""

COUNT = """\
%wrapped_add_computation (param_0: s32[], param_1: s32[]) -> s32[] {
  %param_0 = s32[] parameter(0)
  %param_1 = s32[] parameter(1)
  ROOT %add.7 = s32[] add(%param_0, %param_1)
}
"""

HEAD = """\
HloModule jit__to_and_fro, is_scheduled=true, input_output_alias={ {1}: (1, {}, may-alias), \
{2}: (2, {}, may-alias) }, entry_computation_layout={(s32[], f32[1024]{0}, f32[1024]{0})->\
(s32[], f32[1024]{0}, f32[1024]{0})}, num_partitions=4

"""

ALL_REDUCE = (
    "%psum_invariant.{0} = f32[1024]{{0}} all-reduce(%{1}), channel_id=1, "
    "replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true, to_apply=%region_1.0, "
    'metadata={{op_name="jit(_to_and_fro)/shard_map/while/body/psum_invariant" stack_frame_id=4}}'
)
FIRST = ALL_REDUCE.format(12, "get-tuple-element.35")
SECOND = ALL_REDUCE.format(13, "psum_invariant.12")

_BODY = """\
%region_0.0_spmd (param: (s32[], f32[1024], f32[1024], s32[])) -> (s32[], f32[1024], f32[1024], \
s32[]) {{
  %param = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) parameter(0)
  %constant.0.clone = s32[] constant(1)
  %get-tuple-element.41 = s32[] get-tuple-element(%param), index=3
  %get-tuple-element.34 = s32[] get-tuple-element(%param), index=0
  %get-tuple-element.35 = f32[1024]{{0}} get-tuple-element(%param), index=1
  %wrapped_add = s32[] fusion(%get-tuple-element.34, %constant.0.clone), kind=kLoop, \
calls=%wrapped_add_computation
{lines}
  ROOT %tuple.14 = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) tuple(%wrapped_add, \
%psum_invariant.13, %psum_invariant.12, %get-tuple-element.41)
}}
"""

_ENTRY = """\
ENTRY %main.0_spmd (param.5: s32[], param.6: f32[1024], param.7: f32[1024]) -> (s32[], f32[1024], \
f32[1024]) {{
  %param.5 = s32[] parameter(0)
  %param.6 = f32[1024]{{0}} parameter(1)
  %param.7 = f32[1024]{{0}} parameter(2)
  %constant.1.clone.1 = s32[] constant(0)
  %copy.19 = s32[] copy(%constant.1.clone.1)
{lines}
  %tuple.12 = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) tuple(%copy.19, %param.6, %param.7, \
%param.5)
  %while.11 = (s32[], f32[1024]{{0}}, f32[1024]{{0}}, s32[]) while(%tuple.12), \
condition=%region_3.0_spmd, body=%region_0.0_spmd
  %get-tuple-element.42 = s32[] get-tuple-element(%while.11), index=0
  %get-tuple-element.43 = f32[1024]{{0}} get-tuple-element(%while.11), index=1
  ROOT %tuple.15 = (s32[], f32[1024]{{0}}) tuple(%get-tuple-element.42, %get-tuple-element.43)
}}
"""


def cpu(
    *body: str, entry: tuple[str, ...] = (), computations: str = "", turned_round: bool = False
) -> str:
    """Return the chain from one buffer to another and back on the CPU, with lines in its loop.

    `entry` are lines before the loop, `computations` are further ones; with `turned_round` the
    entry comes before the loop's body.
    """
    loop = _BODY.format(lines=_indented(body))
    main = _ENTRY.format(lines=_indented(entry))
    parts = (main, loop) if turned_round else (loop, main)
    return HEAD + "\n".join((ADD, COUNT, computations, *parts))


def _indented(lines: tuple[str, ...]) -> str:
    return "\n".join("  " + line for line in lines)


CPU_CHAIN = cpu(FIRST, SECOND)

CPU_ALL_TO_ALL = """\
%wrapped_slice_computation (param_0.1: f32[1024]) -> f32[256] {
  %param_0.1 = f32[1024]{0} parameter(0)
  ROOT %slice.16 = f32[256]{0} slice(%param_0.1), slice={[0:256]}
}

%region_0.0_spmd (param: (s32[], f32[1024], f32[1024], s32[])) -> (s32[], f32[1024]) {
  %param = (s32[], f32[1024]{0}, f32[1024]{0}, s32[]) parameter(0)
  %get-tuple-element.51 = f32[1024]{0} get-tuple-element(%param), index=1
  %wrapped_slice = f32[256]{0} fusion(%get-tuple-element.51), kind=kLoop, \
calls=%wrapped_slice_computation
  %all-to-all = (f32[256]{0}, f32[256]{0}, f32[256]{0}, f32[256]{0}) all-to-all(%wrapped_slice, \
%wrapped_slice, %wrapped_slice, %wrapped_slice), channel_id=1, replica_groups={{0,1,2,3}}
  %get-tuple-element.42 = f32[256]{0} get-tuple-element(%all-to-all), index=0
  %concatenate.3 = f32[1024]{0} concatenate(%get-tuple-element.42, %get-tuple-element.42, \
%get-tuple-element.42, %get-tuple-element.42), dimensions={0}
  ROOT %tuple.14 = (s32[], f32[1024]{0}) tuple(%param, %concatenate.3)
}

ENTRY %main.0_spmd (param.5: s32[], param.6: f32[1024], param.7: f32[1024]) -> (s32[], f32[1024]) {
  %while.11 = (s32[], f32[1024]{0}) while(%tuple.12), condition=%region_1, body=%region_0.0_spmd
}
"""

TPU_ALL_REDUCE = """\
HloModule jit__chained, is_scheduled=true, entry_computation_layout={(s32[]{:T(128)}, \
f32[1024]{0:T(1024)})->(s32[]{:T(128)}, f32[1024]{0:T(1024)})}, num_partitions=4

%region_1.0 (psum_invariant.0: f32[], psum_invariant.1: f32[]) -> f32[] {
  %psum_invariant.1 = f32[]{:T(128)} parameter(1)
  %psum_invariant.0 = f32[]{:T(128)} parameter(0)
  ROOT %add.0 = f32[]{:T(128)} add(%psum_invariant.0, %psum_invariant.1)
}

%wide.region_0.0_spmd.sunk (wide.param.2: (s32[], f32[1024], s32[], s32[])) -> (s32[], \
f32[1024], s32[], s32[]) {
  %constant.0.clone.1..sunk = s32[]{:T(128)} constant(1)
  %wide.param.2 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, s32[]{:T(128)}, s32[]{:T(128)}) \
parameter(0)
  %get-tuple-element.53 = s32[]{:T(128)} get-tuple-element(%wide.param.2), index=0
  %add.6 = s32[]{:T(128)} add(%get-tuple-element.53, %constant.0.clone.1..sunk)
  %get-tuple-element.54 = f32[1024]{0:T(1024)} get-tuple-element(%wide.param.2), index=1
  %psum_invariant.8 = f32[1024]{0:T(1024)} all-reduce(%get-tuple-element.54), channel_id=1, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.0
  ROOT %tuple.22 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%add.6, %psum_invariant.8)
}

ENTRY %main.0_spmd (param.4: s32[], param.5: f32[1024]) -> (s32[], f32[1024]) {
  %param.4 = s32[]{:T(128)} parameter(0)
  %param.5 = f32[1024]{0:T(1024)} parameter(1)
  %copy.13 = s32[]{:T(128)} copy(%constant.1.clone.1)
  %while.10 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, s32[]{:T(128)}, s32[]{:T(128)}) \
while(%tuple.20), condition=%wide.region_2.0_spmd, body=%wide.region_0.0_spmd.sunk
  ROOT %tuple.23 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%while.10, %while.10)
}
"""

TPU_PERMUTE = """\
%wide.region_0.0_spmd.sunk (wide.param.2: (s32[], f32[1024], s32[], s32[])) -> (s32[], \
f32[1024], s32[], s32[]) {
  %wide.param.2 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, s32[]{:T(128)}, s32[]{:T(128)}) \
parameter(0)
  %get-tuple-element.54 = f32[1024]{0:T(1024)} get-tuple-element(%wide.param.2), index=1
  %collective-permute-start = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)S(1)}, u32[]{:S(2)}, \
u32[]{:S(2)}) collective-permute-start(%get-tuple-element.54), channel_id=1, \
source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %collective-permute-done = f32[1024]{0:T(1024)S(1)} \
collective-permute-done(%collective-permute-start)
  %copy.9 = f32[1024]{0:T(1024)} copy(%collective-permute-done)
  ROOT %tuple.22 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%add.4, %copy.9)
}

ENTRY %main.0_spmd (param.4: s32[], param.5: f32[1024]) -> (s32[], f32[1024]) {
  %while.10 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, s32[]{:T(128)}, s32[]{:T(128)}) \
while(%tuple.20), condition=%wide.region_1.0_spmd, body=%wide.region_0.0_spmd.sunk
}
"""

TPU_ALL_GATHER = """\
%wide.region_0.0_spmd.sunk (wide.param.2: (s32[], f32[256], f32[1024], s32[], s32[])) -> (s32[], \
f32[256], f32[1024], s32[], s32[]) {
  %get-tuple-element.64 = f32[256]{0:T(256)S(1)} get-tuple-element(%wide.param.2), index=1
  %bitcast.6 = f32[1,1,256]{2,1,0:T(1,128)S(1)} bitcast(%get-tuple-element.64)
  %all-gather.7 = f32[4,1,256]{2,1,0:T(1,128)} all-gather(%bitcast.6), channel_id=1, \
replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  %bitcast.7 = f32[1024]{0:T(1024)} bitcast(%all-gather.7)
  ROOT %tuple.25 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%add.4, %bitcast.7)
}

ENTRY %main.0_spmd (param.5: s32[], param.6: f32[256], param.7: f32[1024]) -> (s32[], f32[256]) {
  %copy.21 = f32[1024]{0:T(1024)} copy(%param.7)
  %copy-start = (f32[256]{0:T(256)S(1)}, f32[256]{0:T(256)}, u32[]{:S(2)}) copy-start(%param.6)
  %copy-done = f32[256]{0:T(256)S(1)} copy-done(%copy-start)
  %while.12 = (s32[]{:T(128)}, f32[256]{0:T(256)S(1)}, f32[1024]{0:T(1024)}) while(%tuple.29), \
condition=%wide.region_1.0_spmd, body=%wide.region_0.0_spmd.sunk
  %copy.20 = f32[1024]{0:T(1024)} copy(%get-tuple-element.88)
}
"""

# A small reduce-scatter: XLA for TPUs sums all of it everywhere and cuts a part out.
TPU_REDUCE_SCATTER = """\
%wide.region_0.0_spmd.sunk (wide.param.2: (s32[], f32[1024], f32[256], s32[], s32[], \
/*index=5*/u32[], u32[])) -> (s32[], f32[1024], f32[256], s32[], s32[], /*index=5*/u32[], u32[]) {
  %wide.param.2 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, f32[256]{0:T(256)}, s32[]{:T(128)}, \
s32[]{:T(128)}, /*index=5*/u32[], u32[]) parameter(0)
  %get-tuple-element.64 = f32[1024]{0:T(1024)} get-tuple-element(%wide.param.2), index=1
  %all-reduce.2 = f32[1024]{0:T(1024)S(1)} all-reduce(%get-tuple-element.64), channel_id=2, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.0.clone
  %dynamic-slice.2 = f32[256]{0:T(256)} dynamic-slice(%all-reduce.2, %multiply.5), \
dynamic_slice_sizes={256}
  ROOT %tuple.25 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%add.9, %get-tuple-element.64)
}

ENTRY %main.0_spmd (param.5: s32[], param.6: f32[1024], param.7: f32[256]) -> (s32[], f32[1024]) {
  %while.12 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}, f32[256]{0:T(256)}) while(%tuple.23), \
condition=%wide.region_2.0_spmd, body=%wide.region_0.0_spmd.sunk
}
"""

SINGLE = """\
HloModule jit__single, is_scheduled=true, input_output_alias={ {1}: (1, {}, may-alias) }

%region_0.0 (psum_invariant.0: f32[], psum_invariant.1: f32[]) -> f32[] {
  ROOT %add.0 = f32[]{:T(128)} add(%psum_invariant.0, %psum_invariant.1)
}

ENTRY %main.0_spmd (param.2: s32[], param.3: f32[1024]) -> (s32[], f32[1024]) {
  %param.2 = s32[]{:T(128)} parameter(0)
  %param.3 = f32[1024]{0:T(1024)} parameter(1)
  %psum_invariant.7 = f32[1024]{0:T(1024)} all-reduce(%param.3), channel_id=1, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_0.0
  %copy.7 = s32[]{:T(128)S(6)} copy(%param.2)
  ROOT %tuple.8 = (s32[]{:T(128)}, f32[1024]{0:T(1024)}) tuple(%copy.7, %psum_invariant.7)
}
"""


def config(kernel: str = "DEFAULT", *, is_sync: bool) -> str:
    """Return the fields that XLA for GPUs writes for a collective, also those at a default."""
    return (
        'backend_config={"operation_queue_id":"0","collective_backend_config":{"is_sync":'
        f'{str(is_sync).lower()},"is_pipelined":false,"backend":"DEFAULT",'
        f'"collectives_mode":"COLLECTIVES_MODE_INVALID","kernel_strategy":"KERNEL_STRATEGY_{kernel}"'
        '},"force_earliest_schedule":false,"device_type":"DEVICE_TYPE_INVALID"}'
    )


GPU_COUNT = (
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
    """Return the chain with lines in its loop, and in the entry before the loop."""
    return _PROGRAM.format(
        body="\n".join("  " + line for line in body),
        entry="\n".join("  " + line for line in entry),
    )


def started(
    kernel: str = "DEFAULT", *, operand: str = "get-tuple-element.27", is_sync: bool
) -> str:
    """Return the start of an all-reduce, which has the shape of its result."""
    return (
        f"%all-reduce-start = f32[1024]{{0}} all-reduce-start(%{operand}), channel_id=1, "
        "replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%region_1.0, "
        + config(kernel, is_sync=is_sync)
    )


GPU_DONE = "%all-reduce-done = f32[1024]{0} all-reduce-done(%all-reduce-start)"

# As jaxlib prints it since 0.11: with what it takes.
GPU_WITH_OPERANDS = gpu(
    started(is_sync=False).replace("= f32[1024]{0} ", "= ((f32[1024]{0}), f32[1024]{0}) "),
    GPU_COUNT,
    GPU_DONE,
)

# The round is counted while the all-reduce runs.
GPU_IN_PLACE = gpu(started("TRITON_ONE_SHOT", is_sync=False), GPU_COUNT, GPU_DONE)

# An A100 has it otherwise.
GPU_WAITED_FOR = gpu(started(is_sync=True), GPU_DONE, GPU_COUNT)

GPU_COPY = "%copy.6 = f32[1024]{0} copy(%get-tuple-element.27)"
GPU_OUT_OF_PLACE = gpu(
    GPU_COPY, started("TRITON_ONE_SHOT", operand="copy.6", is_sync=True), GPU_DONE, GPU_COUNT
)

# With buffers of the library's own, in a memory that is not the main one.
GPU_OWN_BUFFERS = gpu(
    started("TRITON_ONE_SHOT", is_sync=False).replace("f32[1024]{0}", "f32[1024]{0:S(1)}"),
    GPU_COUNT,
    GPU_DONE.replace("f32[1024]{0}", "f32[1024]{0:S(1)}"),
    entry=("%copy.15 = f32[1024]{0:S(1)} copy(%param.5)",),
)

_GROUPS = "channel_id=1, replica_groups={{0,1,2,3}}"

GPU_ALL_GATHER = gpu(
    "%get-tuple-element.17 = f32[256]{0} get-tuple-element(%param), index=1",
    "%all-gather-start = (f32[256]{0}, f32[1024]{0}) all-gather-start(%get-tuple-element.17), "
    f"{_GROUPS}, dimensions={{0}}, use_global_device_ids=true, {config(is_sync=True)}",
    "%all-gather-done = f32[1024]{0} all-gather-done(%all-gather-start)",
    GPU_COUNT,
)

GPU_REDUCE_SCATTER = gpu(
    "%bitcast.2 = f32[8,128]{1,0} bitcast(%get-tuple-element.27)",
    "%reduce-scatter-start = ((f32[8,128]{1,0}), f32[2,128]{1,0}) "
    f"reduce-scatter-start(%bitcast.2), {_GROUPS}, use_global_device_ids=true, dimensions={{0}}, "
    f"to_apply=%region_1.0, {config(is_sync=True)}",
    "%reduce-scatter-done = f32[2,128]{1,0} reduce-scatter-done(%reduce-scatter-start)",
    "%bitcast.1.0 = f32[256]{0} bitcast(%reduce-scatter-done)",
    GPU_COUNT,
)

GPU_ALL_TO_ALL = gpu(
    "%all-to-all-start = ((f32[1024]{0}), f32[1024]{0}) all-to-all-start(%get-tuple-element.27), "
    f"{_GROUPS}, dimensions={{0}}, {config(is_sync=True)}",
    "%all-to-all-done = f32[1024]{0} all-to-all-done(%all-to-all-start)",
    GPU_COUNT,
)

GPU_PERMUTE = gpu(
    "%collective-permute-start = (f32[1024]{0}, f32[1024]{0}) "
    "collective-permute-start(%get-tuple-element.27), channel_id=1, "
    f"source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}, {config(is_sync=True)}",
    "%collective-permute-done = f32[1024]{0} collective-permute-done(%collective-permute-start)",
    GPU_COUNT,
)

# XLA may be told to gather everything everywhere and to sum it there.
GPU_DECOMPOSED = gpu(
    "%bitcast.1 = f32[1,1024]{1,0} bitcast(%get-tuple-element.27)",
    "%all-gather-start = (f32[1,1024]{1,0}, f32[4,1024]{1,0}) all-gather-start(%bitcast.1), "
    f"{_GROUPS}, dimensions={{0}}, use_global_device_ids=true, {config(is_sync=True)}",
    "%all-gather-done = f32[4,1024]{1,0} all-gather-done(%all-gather-start)",
    "%input_reduce_fusion = f32[1024]{0} fusion(%all-gather-done), kind=kInput, "
    "calls=%fused_reduce",
    GPU_COUNT,
)

# Or in steps: within parts of the ranks, and then across them.
GPU_IN_STEPS = gpu(
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
    GPU_COUNT,
)
