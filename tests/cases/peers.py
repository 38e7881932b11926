"""Starting and telling other processes (see `peer.py`)."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class Peer:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cases.peer"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.answer() == {"ready": True}

    def send(self, do, **said):
        self.process.stdin.write(json.dumps({"do": do, **said}) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, do, **said):
        self.send(do, **said)
        return self.answer()

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def peers(count):
    """Processes that end with the block, whatever happens in it."""
    started = []
    try:
        while len(started) < count:
            started.append(Peer())
        yield started
    finally:
        for peer in started:
            peer.kill()
            peer.process.stdin.close()
            peer.process.stdout.close()


def outside(path):
    """What happened outside, as the processes counted it."""
    counted = Path(f"{path}.outside")
    return counted.read_text().split() if counted.exists() else []
