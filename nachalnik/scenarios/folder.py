"""The folder a script runs in: its log, and what is counted outside the process.

Everything here is appended with single writes, so it survives the SIGKILL of its writer and is read
by the process that comes after.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Folder:
    """Paths and side files of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.log = self.path / "story.jsonl"

    def _append(self, name: str, value: Any) -> None:
        fd = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, _encode(value) + b"\n")
        finally:
            os.close(fd)

    def _lines(self, name: str) -> list[Any]:
        try:
            text = (self.path / name).read_bytes()
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line) for line in text.splitlines()]

    # -- how far the story is ----------------------------------------------------------------

    def go_to(self, step: int) -> None:
        """The step a process that starts now begins with."""
        self._append("place", step)

    def place(self) -> int:
        return int(next(reversed(self._lines("place")), 0))

    def answered(self, reply: int) -> None:
        """A reply of the script was taken; it is never given again."""
        self._append("answered", reply)

    def next_reply(self) -> int:
        return len(self._lines("answered"))

    # -- what the world saw ------------------------------------------------------------------

    def started(self, tool: str, call: str) -> None:
        self._append("outside", {"what": "start", "tool": tool, "call": call})

    def took_effect(self, tool: str, call: str, key: str, text: str) -> None:
        self._append(
            "outside", {"what": "effect", "tool": tool, "call": call, "key": key, "text": text}
        )

    def effect_of(self, key: str) -> str | None:
        """What the run under this key did, if it did anything."""
        lines = self._lines("outside")
        return next((one["text"] for one in lines if one.get("key") == key), None)

    def count(self, what: str, tool: str) -> int:
        lines = self._lines("outside")
        return sum(one["what"] == what and one["tool"] == tool for one in lines)

    def starts(self) -> dict[str, int]:
        """How often each call was started, as the tools themselves saw it."""
        found: dict[str, int] = {}
        for one in self._lines("outside"):
            if one["what"] == "start":
                found[one["call"]] = found.get(one["call"], 0) + 1
        return found

    def requested(self, said: str) -> int:
        """Keep a request as it is shown; returns its number, from 1."""
        self._append("requests", said)
        return len(self._lines("requests"))

    def requests(self) -> list[str]:
        return self._lines("requests")

    # -- what the run has to say -------------------------------------------------------------

    def note(self, position: int, text: str) -> None:
        """A line of the trace that is no commit; it stands behind the commit at `position`."""
        self._append("notes", (position, text))

    def notes(self) -> list[tuple[int, str]]:
        return [(position, text) for position, text in self._lines("notes")]

    def broken(self, text: str) -> None:
        """An oracle or an expectation that does not hold."""
        self._append("findings", text)

    def findings(self) -> list[str]:
        return self._lines("findings")

    def live(self, position: int, digest: str) -> None:
        """The digest of the state of a living process, to be compared with that of its log."""
        self._append("lives", (position, digest))

    def lives(self) -> list[tuple[int, str]]:
        return [(position, digest) for position, digest in self._lines("lives")]
