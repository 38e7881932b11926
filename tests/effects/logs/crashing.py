"""Lives one session again and again, killed at call 1, 2, 3, ...; for test_faults.py.

    python -m tests.effects.logs.crashing FOLDER ACT

Each life has a folder `FOLDER/<k>` and writes to `acknowledged` there, byte by byte, what it was
promised: `a` for an append, `s` for a sync. The last life, which met no call k, ends by itself.
"""

import os
import sys
from functools import partial
from itertools import count
from pathlib import Path

from effects.logs.file import FileLog
from tests.effects.logs import faults
from tests.effects.logs.samples import HEADER, commit, large


def live(path, calls, told, tail=b"torn"):
    """Create, append, sync, cache, close; open what is torn, and go on."""
    log = FileLog.create(path, HEADER, calls=calls)
    for position in (1, 2):
        log.append(commit(position))
        told(b"a")
    log.sync()
    told(b"s")
    log.append(commit(3), [large("content 3")])
    told(b"a")
    log.write_cache(b"state 3", "v1")
    log.close()
    with path.open("ab") as file:
        file.write(tail)
    log = FileLog.open(path, fingerprint="v1", calls=calls)
    for position in (4, 5):
        log.append(commit(position), [large(f"content {position}")])
        told(b"a")
    log.write_cache(b"state 5", "v1")
    log.sync()
    told(b"s")
    log.close()


def main(folder, act):
    for k in count(1):
        path = Path(folder, str(k), "demo.log")
        path.parent.mkdir()
        child = os.fork()
        if child == 0:
            told = os.open(path.parent / "acknowledged", os.O_WRONLY | os.O_CREAT, 0o600)
            live(path, faults.Faults(k, getattr(faults, act)), partial(os.write, told))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
