"""The results of all parts as one page of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from busbw.model.words import bytes_text, payload_text, seconds_text

_Result = Mapping[str, Any]


def page(document: Mapping[str, Any]) -> str:
    """Render each part with its table, or with the reason why it has none."""
    lines = [first_sentence(document), "", *_facts(document)]
    for name, part in document["parts"].items():
        lines += ["", f"## {name}", ""]
        if part["problem"]:
            lines += [f"**Failed:** {_cell(part['problem'])}", ""]
        if part["result"]:
            lines += [*TABLES[name](part["result"]), ""]
        lines.append(f"It took {part['seconds']:.0f} s.")
    return "\n".join([*lines, "", *_health(document["health"])]) + "\n"


def first_sentence(document: Mapping[str, Any]) -> str:
    way = document["transport"]["text"]
    if document["device"] == "gpu":
        return (
            f"Two processes on one GPU, {way}: this shows that the path works and is not the "
            "bandwidth of a GPU or of NVLink."
        )
    return f"Two processes on one CPU, {way}: this tries the benchmark, and says nothing of a GPU."


def _facts(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"Begun {document['began']}, with Python {document['python']}."
    failed = [name for name, part in document["parts"].items() if part["problem"]]
    yield f"Parts that failed: {', '.join(failed) or 'none'}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [" | ".join(heads), "|".join("---" for _ in heads)]
    lines += [" | ".join(_cell(cell) for cell in row) for row in rows]
    return [f"| {line} |" if "---" not in line else f"|{line}|" for line in lines]


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _us(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:.4g}"


def _sweep(result: _Result) -> Iterator[str]:
    key = result["environment"]
    shared = ", shared" if key["shared"] else ""
    yield f"{key['device_kind']}, {key['ranks']} ranks in {key['processes']} processes{shared}; "
    yield f"{result['why']}. Versions: " + "; ".join(
        f"{name} {version}"
        for packages in result["versions"].values()
        for name, version in packages.items()
    )
    yield ""
    heads = ("payload", "device clock, us", "host clock, us", "host / device", "algbw, GB/s")
    yield from _table((*heads, "busbw, GB/s", "outcome"), [_sweep_row(r) for r in result["rows"]])
    yield from ("", f"The session took {result['wall_s']:.0f} s:", "")
    spent = sorted(result["spent_s"].items(), key=lambda item: -item[1])
    yield from _table(("what", "s"), [(what, f"{seconds:.1f}") for what, seconds in spent])


def _sweep_row(row: _Result) -> tuple[object, ...]:
    device_s, host_s = row.get("device_s"), row.get("host_s")
    if "text" in row:
        return (row["payload"], "", "", "", "", "", f"{row['outcome']}: {row['text']}")
    ratio = f"{host_s / device_s:.3f}" if host_s and device_s else ""
    rates = (f"{row[name]:.4g}" for name in ("algbw_gb_per_s", "busbw_gb_per_s"))
    return (row["payload"], _us(device_s), _us(host_s), ratio, *rates, row["outcome"])


def _wrong(result: _Result) -> Iterator[str]:
    yield f"Planted: {result['planted']}. Found: {_cell(result['found'])}"


def _recording(result: _Result) -> Iterator[str]:
    yield f"`{result['file']}`, {bytes_text(result['bytes'])}. Collectives: "
    yield f"{result['collectives'] or 'none'}. Proof: {result.get('proof', result.get('problem'))}"
    yield ""
    rows = [
        (one["name"], one["plane"], one["count"], one["known_as"] or "**not known**")
        for one in result["kernels"]
    ]
    yield from _table(("kernel", "plane", "events", "known as"), rows)


def _fidelity(result: _Result) -> Iterator[str]:
    heads = ("payload", "busbw, us", "by hand, us", "busbw / by hand, by process")
    rows = [
        (
            payload,
            _us(one["busbw_s"]),
            _us(one["by_hand_s"]),
            ", ".join(f"{ratio:.3f}" for ratio in one["ratio"]),
        )
        for payload, one in result.items()
    ]
    yield from _table(heads, rows)


def _memory(result: _Result) -> Iterator[str]:
    yield f"Of {bytes_text(result['limit_bytes'])} for each process:"
    yield ""
    heads = ("predicted end", "largest that fits", "smallest that does not", "it says")
    predicted = bytes_text(result["predicted_payload_bytes"])
    ends = (payload_text(result[f"{name}_payload_bytes"]) for name in ("fits", "fails"))
    yield from _table(heads, [(predicted, *ends, result["said"])])


def _collectives(result: _Result) -> Iterator[str]:
    heads = ("collective", "dtype", "payload", "time", "clock", "busbw, GB/s")
    rows = [
        (
            *(row[name] for name in ("collective", "dtype", "payload")),
            *(
                (row["failure"], "", "")
                if "failure" in row
                else (seconds_text(row["time_s"]), row["clock"], f"{row['busbw_gb_per_s']:.4g}")
            ),
        )
        for row in result["rows"]
    ]
    yield from _table(heads, rows)


def _regression(result: _Result) -> Iterator[str]:
    heads = ("session", "outcome", "ratio", "delay as measured", "launches", "s")
    rows = []
    for name in ("unchanged", "with_delay"):
        one = result[name]
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.3f}"
        delays = ", ".join(f"{100 * (x - 1):+.1f} %" for x in one["measured_ratios_with_delay"])
        what = "unchanged" if name == "unchanged" else result["planted"]
        rows.append((what, one["outcome"], ratio, delays, one["launches"], f"{one['wall_s']:.0f}"))
    yield from _table(heads, rows)


TABLES: Mapping[str, Callable[[_Result], Iterator[str]]] = {
    "sweep": _sweep,
    "wrong": _wrong,
    "recording": _recording,
    "fidelity": _fidelity,
    "memory": _memory,
    "collectives": _collectives,
    "regression": _regression,
}


def _health(health: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield from ("## health", "")
    before, after = (dict(_flat(health[name])) for name in ("before", "after"))
    names = sorted((before.keys() | after.keys()) - {"counters/at_s", "counters/host"})
    changed = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    rows = [row for row in changed if row[1] != row[2] or "error" in row[0]]
    rows += [row for row in changed if row[0].endswith("problem") and row[1] == row[2] != ""]
    yield "What changed, and every count of errors:"
    yield ""
    yield from _table(("counter", "before", "after"), rows)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}/{key}" if name else key)
    else:
        yield name, value
