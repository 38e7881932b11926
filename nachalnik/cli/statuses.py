"""Exit statuses (rulings.md, R33), and how `--help` tells them."""

DONE = 0
FAILED = 1
UNUSABLE = 2
WAITING = 3
OWNED = 4
INTERRUPTED = 130

MEANINGS = {
    DONE: "done",
    FAILED: "a finding, a divergence, or a turn that failed or is not at its end",
    UNUSABLE: "what was given cannot be read or used",
    WAITING: "a question is open and nobody is there to answer it",
    OWNED: "another process owns the log",
    INTERRUPTED: "interrupted",
}


def listed(*statuses: int | tuple[int, str]) -> str:
    """The lines of `--help` for these statuses, with a command's own words where it has some."""
    lines = ["Exit status:"]
    for one in statuses:
        status, meaning = one if isinstance(one, tuple) else (one, MEANINGS[one])
        lines.append(f"  {status:<5}{meaning}")
    return "\n".join(lines)
