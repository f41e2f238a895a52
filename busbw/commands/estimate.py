"""`python -m busbw estimate`: what gradient synchronisation should cost a training step."""

from __future__ import annotations

import argparse
import json
import sys

from busbw import costmodel, report

from . import estimate_options, pages
from .estimating import Question, answered, hosts_of, implied_links
from .linking import links_of
from .measured import measured_from
from .workload import AskedWrongly, Workload, workload_of


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command and its options."""
    estimate_options.add_to(commands).set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what is estimated; 0, 1 for a figure that cannot be written, 2 for a wrong question."""
    try:
        _check_figure(options)
        question, notes = _question(options)
        answer = answered(question)
    except (AskedWrongly, pages.Unwritable) as error:
        print(f"busbw estimate: {error}", file=sys.stderr)
        return 2
    asked = _asked(question, (*notes, *answer.notes))
    if options.json:
        print(json.dumps(report.estimate_document(asked, answer.rows), indent=1))
    else:
        print("\n".join(report.estimate_lines(asked, answer.rows)))
    if options.figure is not None:
        return pages.put_file(report.estimate_figure(asked, answer.rows), options.figure)
    return 0


def _check_figure(options: argparse.Namespace) -> None:
    """Raises Unwritable; it replaces an earlier figure, and never what is read."""
    inputs = [one for one in (options.shapes, options.curve) if one is not None]
    what = "a figure of busbw estimate"
    pages.check("--figure", options.figure, what, report.is_estimate_figure, inputs)


def _question(options: argparse.Namespace) -> tuple[Question, tuple[str, ...]]:
    """What was asked, and what is to be known of it. Raises AskedWrongly."""
    workload = workload_of(options)
    if options.curve is not None:
        return _of_curve(options, workload)
    if options.curve_case is not None:
        raise AskedWrongly("--curve-case belongs to --curve")
    links = links_of(options)
    if not links:
        raise AskedWrongly("say a link: --bandwidth, or --intra and --inter, or --curve")
    if options.ranks is None:
        raise AskedWrongly("say how many --ranks")
    question = Question(
        workload=workload,
        ranks=options.ranks,
        hosts=hosts_of(options.hosts),
        links=links,
        servers=options.servers or (),
        wanted_efficiency=options.want_efficiency,
    )
    return question, ()


def _of_curve(options: argparse.Namespace, workload: Workload) -> tuple[Question, tuple[str, ...]]:
    for name in ("bandwidth", "latency", "intra", "inter", "hosts", "half_duplex"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise AskedWrongly(f"--curve says where it was measured: without --{option}")
    measured = measured_from(options.curve, options.curve_case)
    if options.ranks not in (None, measured.ranks):
        raise AskedWrongly(
            f"--ranks={options.ranks}: {options.curve} was measured on {measured.ranks}"
        )
    links = implied_links(measured)
    sizes = [size for size, _ in measured.curve.points]
    notes = [f"curve: {measured.name}, {len(sizes)} payloads from {sizes[0]} to {sizes[-1]} bytes"]
    if links:
        notes.append(
            "other methods: over the link with which a ring has the curve's latency and bandwidth"
        )
    else:
        notes.append("other methods: left out, no latency and bandwidth fit the curve")
    question = Question(
        workload=workload,
        ranks=measured.ranks,
        hosts=(measured.hosts,) if links else (),
        links=links,
        servers=options.servers or (),
        wanted_efficiency=options.want_efficiency,
        measured=measured,
    )
    return question, tuple(notes)


def _asked(question: Question, notes: tuple[str, ...]) -> report.Asked:
    workload = question.workload
    return report.Asked(
        name=workload.name,
        payload_bytes=workload.payload_bytes,
        parameters=workload.parameters,
        dtype=workload.dtype,
        buckets=len(workload.buckets),
        compute_s=workload.compute_s,
        overlap=workload.overlap,
        wanted_efficiency=question.wanted_efficiency,
        links=tuple(
            report.LinkUsed(
                level=level.value,
                name=link.name,
                bytes_per_s=link.bytes_per_s,
                latency_s=link.latency_s,
                full_duplex=link.full_duplex,
            )
            for level, link in question.links.items()
            if level in question.levels
        ),
        memory_bytes_per_parameter=_memory(workload.dtype),
        notes=notes,
    )


def _memory(dtype: str) -> dict[str, int]:
    """Bytes per parameter by optimizer, for gradients of float32 or 16 bits; else none."""
    precisions = {
        "float32": costmodel.Precision.FLOAT32,
        "bfloat16": costmodel.Precision.MIXED,
        "float16": costmodel.Precision.MIXED,
    }
    if dtype not in precisions:
        return {}
    return {
        optimizer.value: costmodel.bytes_per_parameter(optimizer, precisions[dtype]).total
        for optimizer in costmodel.Optimizer
    }
