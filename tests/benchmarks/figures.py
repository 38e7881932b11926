"""The figures of the loop: each the median of ratios taken inside one round."""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import anyio
from msgspec import Struct

from effects.logs.file import FileLog
from effects.replay import restore
from reducers.statecodec import FINGERPRINT, encode_state
from tests.benchmarks import bare
from tests.benchmarks.workload import COMMITS_BEFORE, Caller, lines_of, run


class Figure(Struct, frozen=True):
    """One row. Without a limit it only informs."""

    name: str
    value: float
    limit: float | None
    unit: str
    note: str

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.value > self.limit


class Sizes(Struct, frozen=True):
    """How much is measured: rounds of the long turn, of the short ones, and how often."""

    turns: int
    short: int
    synced: int
    rounds: int


WHOLE = Sizes(turns=10_000, short=1_000, synced=1_000, rounds=5)
QUICK = Sizes(turns=400, short=100, synced=5, rounds=2)


def measure(sizes: Sizes) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from in_memory(sizes)
        yield from durable(sizes, Path(folder))
        yield from long_turn(sizes)
        yield from reading(sizes, Path(folder))
    yield version(sizes)


def in_memory(sizes: Sizes) -> Iterator[Figure]:
    ratios, to_ready_made, microseconds = [], [], []
    for _ in range(sizes.rounds):
        caller = Caller(sizes.short)
        gc.collect()
        lines = lines_of(anyio.run(run, caller))
        gc.collect()
        seconds, made = anyio.run(bare.in_memory, lines, sizes.short)
        assert made == lines[COMMITS_BEFORE + 1 : COMMITS_BEFORE + 1 + len(made)], "not the same"
        ratios.append(caller.took() / seconds)
        to_ready_made.append(caller.took() / bare.encode_only(made))
        microseconds.append(caller.took() / sizes.short * 1e6)
    yield Figure(
        "turn_in_memory",
        median(ratios),
        12,
        "x bare",
        "Kernel / a loop with the same provider and tool that encodes, chains and appends the same "
        "records to a list",
    )
    yield Figure(
        "turn_in_memory_encode",
        median(to_ready_made),
        None,
        "x bare",
        "Kernel / encoding, chaining and appending alone, of records that are ready made",
    )
    yield Figure("turn_in_memory_us", median(microseconds), None, "us a turn", "CPU time")


def durable(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    ratios, milliseconds = [], []
    for number in range(sizes.rounds):
        path = folder / f"durable-{number}.jsonl"
        caller = Caller(sizes.synced, clock=perf_counter)
        anyio.run(partial(run, caller, path)).close()
        lines = path.read_bytes().splitlines(keepends=True)
        of_rounds = lines[COMMITS_BEFORE + 1 : COMMITS_BEFORE + 1 + 2 * sizes.synced]
        bare_s = bare.durable(of_rounds, str(folder / f"bare-{number}"))
        ratios.append(caller.took() / bare_s)
        milliseconds.append(caller.took() / sizes.synced * 1e3)
    yield Figure(
        "turn_durable",
        median(ratios),
        2,
        "x bare",
        "Kernel, synced before each effect / append and sync of the same bytes",
    )
    yield Figure("turn_durable_ms", median(milliseconds), None, "ms a turn", "wall time")


def long_turn(sizes: Sizes) -> Iterator[Figure]:
    tenth = sizes.turns // 10
    for name, usage, limit in (("turn_growth", False, 1.25), ("turn_growth_usage", True, None)):
        ratios = []
        for _ in range(sizes.rounds if limit else 1):
            caller = Caller(sizes.turns, (tenth, sizes.turns - tenth), reports_usage=usage)
            anyio.run(run, caller)
            ratios.append(caller.took(sizes.turns - tenth) / caller.took(0, tenth))
        note = f"cost of a turn, last tenth / first tenth of {sizes.turns}"
        if usage:
            note += ", each answer with a usage report"
        yield Figure(name, median(ratios), limit, "ratio", note)
    size = {n: _log_bytes(n) for n in (sizes.turns // 10, sizes.turns)}
    short, whole = size.values()
    yield Figure("log_bytes", whole / sizes.turns / 1000, 3, "KB a turn", "1 KB is 1,000 bytes")
    linear = abs(whole / (10 * short) - 1) * 100
    yield Figure("log_linear", linear, 5, "%", "N turns against 10 x N/10")


def _log_bytes(turns: int) -> int:
    """Of the rounds alone: what a session costs before its first is not in it."""
    lines = lines_of(anyio.run(run, Caller(turns)))
    return sum(map(len, lines[COMMITS_BEFORE + 1 :]))


def reading(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    path = folder / "long.jsonl"
    kernel = anyio.run(partial(run, Caller(sizes.turns), path, "memory"))
    kernel.close()
    lines = path.read_bytes().splitlines(keepends=True)
    whole, cached = partial(_fold, path, None), partial(_fold, path, FINGERPRINT)
    folds = [_cpu(whole) / bare.decode_lines(lines[1:]) for _ in range(sizes.rounds)]
    log = FileLog.open(path, "memory")
    state = restore(log)
    log.write_cache(encode_state(state), FINGERPRINT)
    log.close()
    opens = [_cpu(cached) / _cpu(whole) for _ in range(sizes.rounds)]
    yield Figure(
        "read_verify_fold",
        median(folds),
        4,
        "x msgspec",
        f"a log of {sizes.turns} turns / decoding its lines, typed, kept in a list",
    )
    yield Figure(
        "open_with_cache", median(opens), 0.12, "ratio", "with a state cache / without one"
    )


def _fold(path: Path, fingerprint: str | None) -> None:
    log = FileLog.open(path, "memory", fingerprint)
    assert restore(log).position == log.position
    log.close()


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()  # each begins as the others do
    start = process_time()
    work()
    return process_time() - start


def version(sizes: Sizes) -> Figure:
    command = Path(sys.executable).with_name("nachalnik")
    ratios = [
        _wall([str(command), "--version"]) / _wall([sys.executable, "-c", ""])
        for _ in range(sizes.rounds * 3)
    ]
    return Figure("version", median(ratios), 6, "x bare", "nachalnik --version / python -c ''")


def _wall(command: list[str]) -> float:
    start = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ})
    return perf_counter() - start
