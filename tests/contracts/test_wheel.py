"""What is built is what was meant: three packages, their markers, and nothing else."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"nachalnik", "effects", "reducers"}
SCRIPTS = "[console_scripts]\nnachalnik = nachalnik.cli:main\nnk = nachalnik.cli:main\n"
CACHES = {"__pycache__", ".hypothesis", ".cache", ".recordings", ".tools", ".git"}


def build(target: str, into: Path) -> Path:
    """Build one artefact, with no network: hatchling is in the environment already."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (artefact,) = into.iterdir()
    return artefact


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def dist_info(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_the_top_level_is_three_packages_and_the_metadata(wheel):
    top = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    (metadata,) = [name for name in top if name.endswith(".dist-info")]
    assert metadata.startswith("nachalnik-")
    assert top - {metadata} == PACKAGES


def test_each_package_says_that_it_is_typed(wheel):
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel.namelist())


def test_every_module_is_in_the_wheel_and_no_cache_is(wheel):
    names = set(wheel.namelist())
    modules = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert modules <= names
    assert not [name for name in names if CACHES & set(PurePosixPath(name).parts)]


def test_the_metadata_names_licence_scripts_and_python(wheel):
    lines = dist_info(wheel, "METADATA").splitlines()
    assert "License-Expression: Apache-2.0" in lines
    assert "Requires-Python: >=3.11" in lines
    assert dist_info(wheel, "entry_points.txt") == SCRIPTS
    assert "Apache License" in dist_info(wheel, "licenses/LICENSE")


def test_the_source_archive_holds_no_cache_and_no_environment(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        paths = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]
    assert {PurePosixPath("pyproject.toml"), PurePosixPath("LICENSE")} <= set(paths)
    strays = [
        path
        for path in paths
        if CACHES & set(path.parts)
        or any(part.startswith(".venv") or part.endswith("_cache") for part in path.parts)
    ]
    assert strays == []
