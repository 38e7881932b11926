"""The commands, found by name and imported when one is run; and what becomes of an error."""

import os
import sys
from importlib import import_module
from traceback import walk_tb
from typing import Any

import click

from nachalnik.cli import output
from nachalnik.cli.command import Stop, write_epilog
from nachalnik.cli.output import complain, end_stdout, give_up, open_standard_streams
from nachalnik.cli.statuses import DONE, FAILED, INTERRUPTED, MEANINGS, OWNED, UNUSABLE, listed

NAME = "nachalnik"

COMMANDS = {
    "run": "Run one turn, or one for each line of standard input.",
    "resume": "Answer what is open, then go on with the turn.",
    "show": "Tell what happened, or show the state at a position.",
    "check": "Verify a log and everything beside it.",
    "replay": "Judge a log again, offline, and compare.",
    "scenario": "Run scenario scripts.",
}

EPILOG = f"""\
Examples:
  nachalnik run "What does main.py do?" --log s.jsonl --model gpt-5-mini --tools my_tools:read
  nachalnik show s.jsonl            every event
  nachalnik show s.jsonl@9          the state after commit 9, and the request it makes
  nachalnik resume s.jsonl --model gpt-5-mini --tools my_tools:read
  nachalnik check s.jsonl && nachalnik replay s.jsonl

A session is one file; `nachalnik COMMAND --help` tells more.

{listed(*MEANINGS)}
"""


class Root(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"nachalnik.cli.{cmd_name}").command
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    format_epilog = write_epilog


@click.group(cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, help="Print the version.")
def root(version: bool) -> None:
    """Agent sessions of which nothing is lost: run them, resume them, look into them."""
    if version:
        from nachalnik.cli import VERSION

        click.echo(VERSION)
        click.get_current_context().exit()


def run_command(arguments: list[str]) -> int:
    """The exit status of one command line; every foreseen error is one message on stderr."""
    open_standard_streams()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        status: Any = root.main(arguments, prog_name=NAME, standalone_mode=False)
        end_stdout()
    except click.ClickException as error:
        error.show(sys.stderr)
        return UNUSABLE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:  # click's end where nobody reads the help
        return DONE
    except OSError as error:
        return _explained_failure(error)
    except Exception as error:
        return _explained(error)
    if status in (None, DONE) and output.is_lost:
        return FAILED
    return status if isinstance(status, int) else DONE


def _explained(error: Exception) -> int:
    """Tell a foreseen error and return its status; a fault of ours is raised with its traceback."""
    from effects.logs.port import SessionOwned
    from nachalnik.cli.words import visible
    from reducers.vocabulary.errors import KernelError

    if not isinstance(error, KernelError | Stop):
        raise error
    complain(visible(str(error)))
    if isinstance(error, Stop):
        return error.status
    return OWNED if isinstance(error, SessionOwned) else UNUSABLE


def _explained_failure(error: OSError) -> int:
    """Of the system, where no command had a word for it: click prints help by itself, and a path
    is nowhere when the current folder is gone."""
    if _raised_in(error) == "click.utils":
        give_up(sys.stdout, error)
        return FAILED if output.is_lost else DONE
    try:
        os.getcwd()
    except FileNotFoundError:
        complain("the current folder was removed: go to one that is there")
        return UNUSABLE
    raise error


def _raised_in(error: OSError) -> str:
    """The module whose line raised it."""
    name = ""
    for frame, _ in walk_tb(error.__traceback__):
        name = frame.f_globals["__name__"]
    return name
