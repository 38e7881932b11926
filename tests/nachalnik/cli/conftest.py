import pytest

from tests.nachalnik.cli.shell import Shell


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)
