"""What the commands have in common: their help, and the error that ends one."""

from typing import Any

import click

from nachalnik.cli.statuses import UNUSABLE


class Stop(Exception):
    """Ends the command: a message for people, and the exit status."""

    def __init__(self, message: str, status: int = UNUSABLE) -> None:
        super().__init__(message)
        self.status = status


def write_epilog(
    command: click.Command,
    ctx: click.Context,  # noqa: ARG001 - click's signature
    formatter: click.HelpFormatter,
) -> None:
    """Examples and exit statuses, printed as they are written: click would fill the lines."""
    if command.epilog:
        formatter.write(f"\n{command.epilog.rstrip()}\n")


class Command(click.Command):
    format_epilog = write_epilog


def as_json(function: Any) -> Any:
    return click.option(
        "--json",
        "is_json",
        is_flag=True,
        help="Print JSON and nothing else; messages go to stderr.",
    )(function)
