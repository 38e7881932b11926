"""The command line, `nachalnik` or `nk`. Its version is answered before anything is imported.

root.py        the commands, and what becomes of an error
command.py     the help that all have in common, and the error that ends one
run.py, resume.py, show.py, check.py, replay.py, scenario.py
               one command each; they import what they need when they are run
options.py     the options that `run` and `resume` share, and the parts made of them
driving.py     a session on its log: it drives turns, and says with which status it rests
asking.py      questions, at a terminal or elsewhere
interrupts.py  Ctrl-C
watching.py    what happens, printed as it happens
script.py      a model whose replies are the `model>` lines of a file
timeline.py    one line an event
snapshot.py    a state and its request, on paper
output.py      standard output, which may close; statuses.py  exit statuses
words.py       text made safe to show
"""

import sys

VERSION = "nachalnik 0.1.0"
"""Not asked of the package, whose import takes longer than all of this; a test compares them."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        return _print_version()
    try:
        from nachalnik.cli.root import run_command

        status = run_command(given)
    except KeyboardInterrupt:
        status = 130
    if arguments is None:
        from signal import SIG_IGN, SIGINT, signal

        signal(SIGINT, SIG_IGN)  # all is done: Ctrl-C would only spoil the status
    return status


def _print_version() -> int:
    try:
        if sys.stdout is not None:  # where the caller closed it
            sys.stdout.write(f"{VERSION}\n")
            sys.stdout.flush()
    except OSError as error:
        from nachalnik.cli import output

        output.give_up(sys.stdout, error)
        return int(output.is_lost)
    return 0
