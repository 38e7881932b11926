"""The processes of one story: `python -m nachalnik.scenarios.child SCRIPT FOLDER`.

This one only starts others, one after the other, so that each has read its modules beforehand.
Each goes on where the folder says the story is, until the story ends, a `reopen` asks for another
process, or a `crash` kills it. Exit status 0 when the story was told; else 1, and why on stderr.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

import anyio

from nachalnik.scenarios.folder import Folder
from nachalnik.scenarios.notation import Story, parse
from nachalnik.scenarios.teller import Teller


def main(script: str, place: str) -> None:
    story = parse(Path(script).read_text(encoding="utf-8"))
    folder = Folder(place)
    while folder.place() < len(story.steps) or not folder.log.exists():
        before = folder.place()
        status = _tell(story, folder)
        if status not in (0, -signal.SIGKILL):
            sys.exit(f"step {folder.place()}: a process ended with status {status}")
        if folder.place() == before:
            sys.exit(f"step {before + 1} was begun twice: the story does not go on")


def _tell(story: Story, folder: Folder) -> int:
    """Tell in a process of its own; its exit status, negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        anyio.run(Teller(story, folder).tell)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
