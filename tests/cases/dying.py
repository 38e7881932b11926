"""Kills a process at each call of a session to the operating system, one after the other.

`python -m tests.cases.dying SOURCE TARGET HOW`: for k = 1, 2, ... the folder SOURCE is copied to
TARGET/k, and a process that opens the log there, pushes, runs a turn and closes is killed at its
k-th call. Ends when a process survives. HOW is `killed`, or `killed_half`: in the middle of its
k-th write.
"""

import os
import shutil
import sys
from pathlib import Path

import anyio

import nachalnik.kernel
from effects.logs.file import FileLog
from nachalnik import ContextItem, Kernel, Rules
from tests.effects.logs import faults
from tests.effects.shell import Model, Tool, calls, said

LOG = "log.jsonl"


def session(folder, door=None):
    """One opening of the session; every opening does the same."""
    options = {} if door is None else {"calls": door}

    class Log(FileLog):
        @classmethod
        def open(cls, path, durability="fsync", fingerprint=None):
            return super().open(path, durability, fingerprint, **options)

    nachalnik.kernel.FileLog = Log
    nachalnik.kernel.CACHE_EVERY = 1
    path = Path(folder) / LOG
    count = [1_764_540_000_000]

    def clock():
        count[0] += 7
        return count[0]

    note = Tool("note", "noted")
    with Kernel.open(
        path,
        provider=Model(calls("note"), said("done")),
        tools=[note],
        policy=Rules(allow=["*"]),
        clock=clock,
    ) as kernel:
        kernel.push(ContextItem.user("go"))
        anyio.run(kernel.turn)


def main(source, target, how):
    k = 0
    while True:
        k += 1
        folder = Path(target) / str(k)
        shutil.copytree(source, folder)
        child = os.fork()
        if child == 0:
            try:
                only = "write" if how == "killed_half" else None
                session(folder, faults.Faults(k, getattr(faults, how), only=only))
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if status > 0:
            sys.exit(f"the process of call {k} ended with status {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
