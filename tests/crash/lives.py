"""Lives the session again and again, each life ended by a signal at another moment.

    python -m tests.crash.lives FOLDER SERIAL|PARALLEL FIRST STEP [AGAIN [SIGINT]]

Moments are counted: before, in the middle of and behind every write to the log, around every sync
and around every outside effect. Life number n is killed at moment n, counted from FIRST in steps of
STEP, in its own folder `FOLDER/<n>`; with AGAIN, its second life is killed at moment AGAIN of that
one. The run ends with the first life that met no such moment. What each was promised stands in
`acknowledged`, line by line; a test then lives each session to its end.

The signal is SIGKILL, or SIGINT: then the life closes its kernel and ends with status 130.
"""

import contextlib
import os
import signal
import sys
from itertools import count
from pathlib import Path

from effects.logs.port import LogError
from tests.crash.session import Life, Outside, Unsynced

INTERRUPTED = 130


class Moments(Unsynced):
    """Counts the moments of a life, and ends it at one of them."""

    def __init__(self, last, number):
        self.last = last
        self.number = number
        self.count = 0

    def reach(self, name):
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), self.number)

    def write(self, fd, data):
        self.reach("before a write")
        if self.count + 1 == self.last:
            data = data[: len(data) // 2]
        written = super().write(fd, data)
        self.reach("after a part of it")
        self.reach("after a write")
        return written

    def fsync(self, fd):
        self.reach("before a sync")
        self.reach("after a sync")


def lived(folder, last, parallel, number):
    """Whether a life in a child process came to its end by itself."""
    child = os.fork()
    if child == 0:
        os._exit(life_of(folder, last, parallel, number))
    status = os.waitpid(child, 0)[1]
    ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    assert ended in (0, INTERRUPTED, -number), f"a life ended with status {ended}: {folder}"
    return ended == 0


def life_of(folder, last, parallel, number):
    moments = Moments(last, number)
    told = Outside(Path(folder, "acknowledged")).append
    life = Life(folder, calls=moments, reach=moments.reach, parallel=parallel, told=told)
    try:
        life.open()
        life.live()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if life.kernel is not None:
            with contextlib.suppress(LogError):
                life.close()


def main(folder, mode, first, step, again="0", name="SIGKILL"):
    number = getattr(signal, name)
    for moment in count(int(first), int(step)):
        mine = Path(folder, str(moment))
        mine.mkdir()
        ended = lived(mine, moment, mode == "PARALLEL", number)
        if not ended and int(again):
            lived(mine, int(again), mode == "PARALLEL", number)
        if ended:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
