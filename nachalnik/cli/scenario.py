"""`nachalnik scenario`: stories that are run, with the trace they leave."""

import attrs
import click

from nachalnik.cli.command import Command, as_json
from nachalnik.cli.output import Output
from nachalnik.cli.statuses import DONE, FAILED, INTERRUPTED, UNUSABLE, listed
from nachalnik.cli.words import visible
from nachalnik.scenarios.runner import run_files

EPILOG = f"""\
A script tells what happens in a few lines, and behind ---- the trace it left when it was written.
It is run, its trace is compared, and the oracles are checked whatever the trace says. The format is
described in nachalnik/scenarios/README.md.

Examples:
  nachalnik scenario tests/scenarios/*.txt
  nachalnik scenario new.txt --rewrite

{
    listed(
        (DONE, "every script runs as it is written"),
        (FAILED, "a trace differs, or an oracle is broken"),
        (UNUSABLE, "a script cannot be read, or its new trace not be written"),
        INTERRUPTED,
    )
}
"""


@click.command("scenario", cls=Command, epilog=EPILOG)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--rewrite", is_flag=True, help="Put the new trace in the place of the old one.")
@as_json
def command(files: tuple[str, ...], rewrite: bool, is_json: bool) -> int:
    """Run scenario scripts and compare the trace each leaves with the one it has."""
    output = Output()
    worst = DONE
    # All are run though the reader may go away: the status is that of every script.
    for report in run_files(files, rewrite):
        if is_json:
            output.json(attrs.asdict(report))
        else:
            output.line(visible(str(report)))
        worst = max(worst, report.status)
    return worst
