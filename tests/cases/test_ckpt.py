"""CKPT: damaged, half-written or torn logs and snapshots."""

import anyio
import pytest

from effects.logs.file import FileLog
from effects.replay import states
from nachalnik import ContextItem, Kernel, Rules
from nachalnik.kernel import Kernel as KernelClass
from reducers.codec import decode_header
from reducers.statecodec import FINGERPRINT, encode_state
from tests.effects.logs.faults import Faults, killed, killed_half
from tests.effects.shell import Model, Tool, calls, results, said, sound

BREAKS = "\n \r\n \r \u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e \\"


def _session(path, *replies, **options):
    options.setdefault("provider", Model(*replies))
    return Kernel.open(path, tools=[Tool("note", "noted")], policy=Rules(allow=["*"]), **options)


def test_ckpt_03_one_line_a_record_for_every_splitter(tmp_path):
    path = tmp_path / "log.jsonl"
    with Kernel.open(
        path,
        provider=Model(calls("raw"), said(f"done{BREAKS}")),
        tools=[Tool("raw", BREAKS)],
        policy=Rules(allow=["*"]),
    ) as kernel:
        kernel.push(ContextItem.user(f"go{BREAKS}"))
        anyio.run(kernel.turn)
        count = kernel.position + 1  # and the header
    raw = path.read_bytes()
    assert len(raw.splitlines()) == count
    assert len(raw.decode().split("\n")) == count + 1
    with path.open(newline=None) as lines:
        assert len(list(lines)) == count
    assert len(raw.decode().splitlines()) == count
    with _session(path) as again:
        assert results(again) == [("c1", BREAKS, False)]
        assert again.items()[0].content.text == f"go{BREAKS}"
        assert again.items()[-1].content.text == f"done{BREAKS}"
        sound(again)
