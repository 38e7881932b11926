"""`nachalnik check`: is the log what was written, and does everything in it hold?"""

import attrs
import click

from nachalnik.checking import examine
from nachalnik.cli.command import Command, as_json
from nachalnik.cli.output import Output
from nachalnik.cli.statuses import DONE, FAILED, INTERRUPTED, UNUSABLE, listed
from nachalnik.cli.words import counted, on_one_line

EPILOG = f"""\
Checked are: the chain and the position of every line; that the events fold; that every request,
drawn again, has the digest it was sent with, and answers each call once; that no call has two
results or was started twice without an order; every large content; the state cache.

A finding names its line. What a crash may leave (the torn end of a line, a content that no commit
names yet) is a note, and no finding. The log is only read, and may be in use.

Examples:
  nachalnik check s.jsonl
  nachalnik check s.jsonl --json | jq .findings

{
    listed(
        (DONE, "no finding"),
        (FAILED, "a finding"),
        (UNUSABLE, "it is no log, or one of a newer version, or cannot be read"),
        INTERRUPTED,
    )
}
"""


@click.command("check", cls=Command, epilog=EPILOG)
@click.argument("log")
@as_json
def command(log: str, is_json: bool) -> int:
    """Verify LOG and everything beside it."""
    found = examine(log)
    output = Output()
    if is_json:
        output.json({"log": log, **attrs.asdict(found)})
    else:
        for finding in found.findings:
            output.line(on_one_line(str(finding)))
        for note in found.notes:
            output.line(on_one_line(f"note: {note}"))
        what = f"{counted(found.commits, 'commit')}, {counted(found.events, 'event')}"
        if found.findings:
            output.line(f"{counted(len(found.findings), 'finding')} ({what} could be read)")
        else:
            output.line(f"whole: {what}")
    return FAILED if found.findings else DONE
