"""Standard output and standard error. With `--json` the first holds JSON and nothing else."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

is_lost = False
"""What was to be printed could not be, although somebody reads: such a command has not done."""


class Output:
    """Standard output, for people or for programs.

    A reader that goes away silences it: what is under way goes on to its end and its exit status.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_closed = False
        """Nobody reads any more; long listings may stop."""
        reconfigure = getattr(self._stream, "reconfigure", None)
        if reconfigure is not None:  # what an encoding cannot say is spelt out, never an error
            reconfigure(errors="backslashreplace")

    def write(self, text: str) -> None:
        """Text as it is, at once."""
        if self.is_closed:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            self.is_closed = True
            give_up(self._stream, error)

    def line(self, text: str = "") -> None:
        self.write(f"{text}\n")

    def json(self, value: Any) -> None:
        """One JSON value on one line, in UTF-8 whatever the locale says."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        if not _is_utf8(self._stream):
            text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        self.line(text)

    def is_styled(self) -> bool:
        """Whether tables and colours help: at a terminal, unless NO_COLOR or TERM say no."""
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self._stream.isatty() and not plain

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns: ruled at a terminal, plain and aligned elsewhere."""
        if not self.is_styled():
            widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
            for row in (headings, *rows):
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                self.line("  ".join(cells).rstrip())
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console = Console(file=self._stream)
        with console.capture() as captured:
            console.print(table)
        self.write(captured.get())


def complain(text: str) -> None:
    """One message for people, on standard error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"nachalnik: {text}\n")
        sys.stderr.flush()


def give_up(stream: TextIO, error: OSError) -> None:
    """After an error of a stream nothing more is printed; a reader who went away needs no word."""
    global is_lost  # noqa: PLW0603 - of the process, as standard output is
    _drain(stream)
    if not isinstance(error, BrokenPipeError):
        is_lost = True
        complain(f"standard output: {error.strerror}; nothing more is printed")


def end_stdout() -> None:
    """Write what is buffered while an error can still be kept quiet."""
    try:
        sys.stdout.flush()
    except OSError:
        _drain(sys.stdout)


def open_standard_streams() -> None:
    """Where the caller closed one of the three, put nothing in its place: the log's file must not
    get its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open


@contextlib.contextmanager
def standard_output(is_json: bool) -> Iterator[Output]:
    """Standard output; with JSON for that alone: what modules, tools and their children print goes
    to standard error."""
    if not is_json:
        yield Output()
        return
    sys.stdout.flush()
    kept = os.dup(1)
    with os.fdopen(kept, "w", encoding="utf-8", errors="backslashreplace") as stream:
        os.dup2(2, 1)
        try:
            yield Output(stream)
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)


def _is_utf8(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _drain(stream: TextIO) -> None:
    """Let what is still buffered run into nothing, so that closing the stream is quiet as well."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
