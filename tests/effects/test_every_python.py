"""The same session gives the same bytes: under each hash seed, and on each Python there is."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from effects.logs.scan import check_log

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NEEDS = ("anyio", "attrs", "cattrs", "httpx2", "msgspec", "rpds-py")


def log_of(python, **environment):
    run = subprocess.run(
        [python, "-m", "tests.effects.every_python"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def test_the_session_is_one_in_which_much_happens(tmp_path):
    """The instrument: the bytes below are those of a log, with most events in it."""
    lines = log_of(sys.executable).split(b'{"nachalnik":')[1:]
    for number, text in enumerate(lines):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b'{"nachalnik":' + text)
        findings = [one.text for one in check_log(path)]
        assert findings == []
        tags = {part.split(b'"')[0] for part in path.read_bytes().split(b'"tag":"')[1:]}
        assert len(tags) > 40
    assert len(lines) == 2


def test_under_each_hash_seed():
    logs = {log_of(sys.executable, PYTHONHASHSEED=seed) for seed in ("0", "1", "random")}
    assert len(logs) == 1


def pythons():
    """Each other Python that runs here, by its version."""
    found = {}
    for version in VERSIONS:
        for path in _candidates(version):
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            try:
                run = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            if run.stdout.strip() == version:
                found.setdefault(version, path)
    found.pop(f"{sys.version_info[0]}.{sys.version_info[1]}", None)
    return found


def _candidates(version):
    name = shutil.which(f"python{version}")
    if name:
        yield name
    places = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    yield from map(str, sorted(Path(places, "versions").glob(f"{version}*/bin/python")))


@pytest.mark.deep
@pytest.mark.parametrize("version", VERSIONS)
def test_on_each_python(tmp_path, version):
    path = pythons().get(version)
    if path is None:
        pytest.skip(f"no other Python {version} runs here")
    python = made(tmp_path / "venv", path)
    assert log_of(python) == log_of(sys.executable)


def made(folder, path):
    """A Python with what the package needs, in a folder of its own; a skip where that fails."""
    uv = shutil.which("uv") or ROOT / ".tools" / "bin" / "uv"
    python = str(folder / "bin" / "python")
    if Path(uv).exists():
        orders = [
            [uv, "venv", "-q", "-p", path, folder],
            [uv, "pip", "install", "-q", "-p", python],
        ]
    else:
        orders = [[path, "-m", venv.__name__, folder], [python, "-m", "pip", "install", "-q"]]
    orders[1] += NEEDS
    for order in orders:
        run = subprocess.run(
            [str(word) for word in order], capture_output=True, text=True, check=False
        )
        if run.returncode:
            pytest.skip(f"what the package needs cannot be installed: {run.stderr[-200:]}")
    return python
