"""One object for each default, so that bytes depend on values alone.

msgspec leaves a field out when its value *is* the default. For None, booleans, small integers,
empty texts and empty tuples CPython has one object each; other defaults are put in place here,
whenever a struct is made, decoded or replaced.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr


def canonical(struct: Struct, **defaults: Any) -> None:
    """Put the default object where an equal one stands. Only for a struct that is being made."""
    for name, default in defaults.items():
        value = getattr(struct, name)
        if value is not default and value == default:
            force_setattr(struct, name, default)
