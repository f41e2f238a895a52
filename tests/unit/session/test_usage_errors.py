"""What is asked for and cannot be measured: a sentence that says what is accepted.

Options are read as the plugin reads them, and asked of a session without pytest; that pytest says
the sentence and ends with exit code 4 is in `tests/contract/plugin/test_usage_errors.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import storage
from busbw.model.case import GridError
from busbw.session.command_line import make_options, parse_options
from busbw.session.measure import Display
from busbw.session.option import UsageError
from busbw.session.run import requested_mode, run_session
from tests.contract.plugin.test_reference_options import AGAINST

RANKS = "expected a number from 2 to 10000000, got {!r}"
COUNT = "expected a number from 1 to 10000000, got {!r}"
NO_INTEGER = "invalid literal for int() with base 10: {!r}"
SECONDS = "expected a number from 1e-09 to 10000000, got {!r}"
EMPTY = "expected a value, got an empty text"
SIZE = "is not a size; expected a whole number of bytes with K, M or G"
DTYPES = "expected one of float32, bfloat16, float16, int32, got "
PERCENTAGE = "expected a percentage such as 25%, got "
INJECTED = "expected one of delay, memory, got "
TWO = ("--processes=2", "--ranks-per-process=2")
NAMED = ("--processes=2", "--mesh=hosts:2,devices:4")
PAIRS = (AGAINST, "--launches=2", "--payloads=1K,1M")
LEVELS = "the axes slices, hosts, processes, devices"

# One option with several values, and what the sentence has of each.
VALUES = [
    (
        "--payloads",
        [
            *("abc", "0", "-1K", "1K,,2K", "1.5K"),
            *("0K", "1.5M", "1T", "K", "1 K", "4KiB", "1KB", "one"),
        ],
        SIZE,
    ),
    ("--payloads", [""], EMPTY),
    ("--launches", ["0", "-1"], COUNT),
    ("--launches", ["few"], NO_INTEGER),
    ("--launches", [""], f"--launches: {EMPTY}"),
    ("--fail-above", [""], f"--fail-above: {EMPTY}"),
    ("--ranks", ["0", "1", "-3"], RANKS),
    ("--ranks", ["many", "2.5"], NO_INTEGER),
    ("--case-timeout", ["0", "-1", "nan", "inf"], SECONDS),
    ("--time-budget", ["0", "-1", "nan", "inf"], f"--time-budget: {SECONDS}"),
    ("--device-wait", ["forever"], "could not convert string to float: {!r}"),
    ("--memory-limit", ["much", "0", "1K:1G", "-1G", "1\N{KELVIN SIGN}"], "is not a size"),
    ("--fail-above", ["25", "0%", "-5%", "nan%", "inf%"], f"--fail-above: {PERCENTAGE}"),
    ("--fail-above", ["1.25x", "%"], "--fail-above: could not convert string to float: "),
    (
        "--dtypes",
        ["float64", "float8", "float128", "int8", "int64", "bfloat8"],
        f"{DTYPES}{{!r}}",
    ),
    ("--frameworks", [",", "keras"], "expected one of jax, tensorflow, fake"),
    ("--mesh", ["2by4", "2x", "0x4", "2x4x"], "--mesh: {!r} is not a mesh; expected up to 6 "),
    ("--mesh", ["1", "1x1"], "--mesh: expected a mesh of two ranks or more, got {!r}"),
    (
        "--inject",
        ["delay:0%", "delay:-5%", "delay:5"],
        f"--inject: {PERCENTAGE}",
    ),
    ("--inject", ["delay", "delay:20us", "delay:5%/M"], "--inject: could not convert string to"),
    ("--inject", ["chaos", "payload:10%", "sleep:60%"], INJECTED),
    ("--against-env", ["NAME", "=value"], "--against-env: expected NAME=VALUE, got {!r}"),
    ("--try-env", ["NAME", "=value"], "--try-env: expected NAME=VALUE, got {!r}"),
    ("--against", ["/nowhere/python", "keras=python3"], "--against: {!r} is not an executable"),
    ("--against=fake", ["/nowhere/python"], "--against: {!r} is not an executable program"),
    (
        "--python",
        ["/nowhere/python", "keras=python3"],
        "--python: {!r} is not an executable program",
    ),
    (
        "--python=fake",
        ["/nowhere/python", "/etc/passwd", ""],
        "--python: {!r} is not an executable program",
    ),
    ("--inject", ["memory:much", "memory:", "delay:5%@much", "delay:5%@1K+"], "is not a size"),
]
OPTIONS = [
    (["--payloads=4M:1K"], "'4M:1K' begins above its end (4M > 1K)"),
    (["--payloads=1K:2K:3K"], "expected begin:end, such as 1K:1024M"),
    (["--payloads=8:128M:1"], "begin:end:factor, such as 8:128M:4, with a factor from 2 to 1024"),
    (
        ["--payloads=1022"],
        "a payload of 1022 is not 1 equal block of float32, which all_reduce over 4",
    ),
    (
        ["--placement=beside"],
        "--placement: expected one of default, in_place, out_of_place, got 'beside'",
    ),
    (
        ["--collectives=all_gather", "--placement=in_place"],
        "busbw: all_gather has no placement in_place; it has out_of_place",
    ),
    (
        ["--collectives=reduce_scatter", "--placement=in_place"],
        "busbw: reduce_scatter has no placement in_place; it has out_of_place",
    ),
    (["--reduce-ops=product"], "--reduce-ops: expected one of sum, max, min, got 'product'"),
    (
        ["--collectives=reduce_scatter", "--reduce-ops=max"],
        "busbw: reduce_scatter has no reduce op max; it has sum",
    ),
    (["--strategies=magic"], "expected one of default, psum, ring"),
    (["--strategies=nccl"], "fake has none of the strategies nccl; it has default, fake"),
    (
        ["--collectives=broadcast"],
        "--collectives: expected one of all_gather, all_reduce, all_to_all, permute, "
        "reduce_scatter, got 'broadcast'",
    ),
    (
        ["--collectives=all_gather", "--payloads=1K,1028"],
        "a payload of 1028 is not 4 equal blocks of float32, which all_gather over 4 ranks needs",
    ),
    (["--mesh=2x3", "--ranks=4"], "--ranks: not with --mesh, which says the number of ranks"),
    (["--axes=y"], "--axes: only with --mesh"),
    (["--mesh=2x4", "--axes=z"], "is no axis of the mesh 2x4; it has x, y"),
    (["--mesh=2x4", "--axes=xy"], "is no axis of the mesh 2x4; it has x, y"),
    (["--mesh=2x4", "--axes=x,"], "is no axis of the mesh 2x4; it has x, y"),
    (
        ["--mesh=1x4", "--axes=x"],
        "'x': one rank along these axes of 1x4 is not a collective",
    ),
    (["--mesh=hosts:2,devices:2"], "a mesh of hosts:2,devices:2 has 2 hosts, there are 1"),
    (["--processes=4", "--mesh=hosts:2,devices:4"], "has 2 hosts, there are 4"),
    (["--mesh=hosts:2,devices:x"], LEVELS),
    (["--mesh=hosts:2,hosts:2"], "each once"),
    (["--mesh=nodes:2,devices:2"], LEVELS),
    ([*NAMED, "--axes=x"], "'x' is no axis of the mesh hosts:2,devices:4; it has hosts, dev"),
    ([*NAMED, "--ranks-per-process=2"], "--mesh: not with --ranks-per-process, which says the"),
    (["--processes=0"], COUNT.format("0")),
    (["--processes=two"], NO_INTEGER.format("two")),
    (["--processes=2", "--ranks-per-process=0"], COUNT.format("0")),
    (
        ["--ranks-per-process=2"],
        "--ranks-per-process: expected several --processes, such as --processes=2",
    ),
    ([*TWO, "--ranks=6"], "--ranks: not with --ranks-per-process, which says the number"),
    (["--processes=2", "--ranks=3"], "--processes: expected a divisor of 3 ranks, got 2"),
    (
        ["--hosts=a,b", "--cluster=tcp://a:1"],
        "--cluster: not with --hosts, which starts processes by ssh",
    ),
    (["--cluster-trust-network"], "--cluster-trust-network: only with --cluster"),
    (["--libtpu=0.0.40"], "--libtpu: only with --topology"),
    (["--accept-compiled-changes"], "--accept-compiled-changes: only with --topology"),
    (["--python=fake=/bin/false"], "fake: /bin/false: the worker ended with exit code 1"),
    (
        ["--against=/bin/false"],
        "busbw: the reference: fake: /bin/false: the worker ended with exit code 1",
    ),
    (
        ["--try-env=A=B", "--against=baseline"],
        "--against=baseline: expected no other stack: the lock says which",
    ),
    (
        ["--fail-above=25%", AGAINST],
        "--fail-above: not with --against, which compares with another stack",
    ),
    (["--update-baselines", "--accept-regression="], EMPTY),
    (["--update-baselines", "--accept-regression=  "], EMPTY),
    (["--accept-regression=why"], "--accept-regression: only with --update-baselines"),
    # What is slowed down on purpose, or measured in turn, becomes no baseline.
    (
        ["--inject=delay:5%", "--update-baselines"],
        "--update-baselines: not with --inject, whose times",
    ),
    (
        ["--inject=delay:5%", "--prune-baselines"],
        "--prune-baselines: not with --inject, whose times",
    ),
    (
        [AGAINST, "--update-baselines"],
        "--update-baselines: not with --against, which compares",
    ),
    ([AGAINST, "--prune-baselines"], "--prune-baselines: not with --against, which compares"),
    (["--against-env=A=B", "--update-baselines"], "--update-baselines: not with --against-env"),
    (["--try-env=A=B", "--update-baselines"], "--update-baselines: not with --try-env"),
    # Otherwise it would be a trial that tries nothing, and green.
    (
        [*PAIRS, "--inject=delay:15%@4M"],
        "--inject: expected a selected payload (1K, 1M), got 4M",
    ),
    (
        ["--device=tpu"],
        "busbw: --device=tpu: no TPU to measure on (fake: not in the script)",
    ),
    (
        ["--device=gpu"],
        "busbw: --device=gpu: no GPU to measure on (fake: not in the script)",
    ),
]


USUAL = ("--frameworks=fake", "--payloads=1M", "--launches=1")


def _refused(root: Path, *words: str) -> str:
    """Return the error with which a session of these options ends before it measures."""
    with pytest.raises((UsageError, GridError)) as refused:
        options = make_options(parse_options([*USUAL, *words]), root)
        mode = requested_mode(options)
        run_session(mode.collected_session, mode.select_specs(options), Display(), mode.run_cases)
    return str(refused.value)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the session wait for no other session, and require no baselines."""
    monkeypatch.setenv(storage.MACHINE_VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "BUSBW_FAKE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ([f"{option}={text}"], message.format(text))
            for option, values, message in VALUES
            for text in values
        ),
        *OPTIONS,
    ],
)
def test_a_usage_error_says_in_three_lines_which_values_are_accepted_and_writes_no_file(
    tmp_path: Path, options: list[str], message: str
) -> None:
    sentence = f"busbw: {_refused(tmp_path, *options)}"
    assert message in sentence
    assert len(f"ERROR: {sentence}") <= 3 * 80
    assert not list(tmp_path.iterdir())
