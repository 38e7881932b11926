"""A process that opens logs when told: `open PATH DELAY_S`, `fork`, `end`. For test_lock.py."""

import os
import sys
import time

from effects.logs.file import FileLog
from effects.logs.port import LogUnusable, SessionOwned
from tests.effects.logs.samples import commit


def main():
    log = None
    print("ready", flush=True)
    for order in sys.stdin:
        match order.split():
            case ["open", path, delay]:
                time.sleep(float(delay))
                try:
                    log = FileLog.open(path, "os")
                    log.append(commit(log.position + 1, f"from {os.getpid()}"))
                    print("opened", flush=True)
                except SessionOwned as error:
                    print("owned", error.owner.pid if error.owner else 0, flush=True)
            case ["end"]:
                if log is not None:
                    log.close()
                    log = None
                print("ended", flush=True)
            case ["fork"]:
                print(f"{in_a_child(log)}", flush=True)


def in_a_child(log):
    """What a forked copy of an open log does when it writes, and then ends as processes do."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log.append(commit(log.position + 1, "from a copy"))
        except LogUnusable:
            log.close()
            status = 0
        os._exit(status)
    return "refused" if os.waitpid(child, 0)[1] == 0 else "written"


if __name__ == "__main__":
    main()
