"""The two tools of the demo. A typed function is a tool; its capabilities are what the rules name.

`write_note` shows how a tool survives a crash. Its effect and the proof of it, the key of the call,
are one atomic write, so whoever looks later can tell whether that write happened.
"""

import os
from collections.abc import Callable
from pathlib import Path

from effects.ports import OutputSink, ToolError
from effects.tools.function import FunctionTool, tool
from reducers.vocabulary.tools import ToolOutput

LINES_MAX = 5


def _inside(folder: Path, name: str) -> Path:
    """A path below the folder. Raises `ToolError`, whose text the model reads."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ToolError(f"{name} is outside of the folder this tool works in.")
    return path


def reading_tool(folder: Path) -> FunctionTool:
    """`read_file` on the files of one folder."""

    @tool(capabilities=["fs:read"])
    def read_file(path: str) -> str:
        """Read the first lines of a text file."""
        try:
            text = _inside(folder, path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror}.") from error
        return "\n".join(text.splitlines()[:LINES_MAX])

    return read_file


def writing_tool(folder: Path, when_written: Callable[[], None] | None = None) -> FunctionTool:
    """`write_note` into one folder. `when_written` is called between the effect and the result."""

    @tool(capabilities=["fs:write"])
    def write_note(name: str, text: str, sink: OutputSink) -> str:
        """Write a note, a text file of its own."""
        path = _inside(folder, name)
        part = path.with_name(f"{path.name}.part")
        part.write_text(f"{text}\n\n{_proof(sink.key)}\n", encoding="utf-8")
        os.replace(part, path)
        if when_written is not None:
            when_written()
        return f"Wrote {name}."

    @write_note.reconciler
    def find_note(key: str, name: str) -> ToolOutput:
        """How the run under this key ended. It writes nothing."""
        path = _inside(folder, name)
        if path.exists() and _proof(key) in path.read_text(encoding="utf-8"):
            return ToolOutput.of(f"Wrote {name}.")
        return ToolOutput.error(f"{name} was not written.")

    return write_note


def _proof(key: str) -> str:
    return f"(written by call {key})"
