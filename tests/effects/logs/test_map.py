"""The package says where everything is: a module that its map leaves out is not found."""

from pathlib import Path

import effects.logs


def test_the_map_names_every_module():
    folder = Path(effects.logs.__file__).parent
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    named = {line.split()[0] for line in effects.logs.__doc__.splitlines() if ".py " in line}
    assert named == modules
