import sys

import pytest

from nachalnik.cli import main
from tests.nachalnik.cli.shell import Ran, Shell


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def here(shell, monkeypatch, capfd):
    """The command in this process: as good for what is refused at once, and ten times faster."""
    monkeypatch.chdir(shell.folder)
    monkeypatch.syspath_prepend(shell.folder)
    for name in ("OPENAI_API_KEY", "NACHALNIK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    before = set(sys.modules)

    def run(*arguments: str) -> Ran:
        status = main(list(arguments))
        return Ran(status, *capfd.readouterr())

    yield run
    for name in set(sys.modules) - before:
        if str(shell.folder) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture
def quick(shell, here):
    """Every command of the shell in this process, but for those with standard input."""
    shell.runner = here
