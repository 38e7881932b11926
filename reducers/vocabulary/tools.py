"""Tools as they are described, what they may touch, and what they return."""

from msgspec import Struct

from reducers.vocabulary.canonical import canonical
from reducers.vocabulary.content import AnyContent, content_of
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.json import Json

NO_PARAMETERS = Json('{"type":"object","properties":{},"required":[]}')

Capability = str
"""`domain:op`, for instance `fs:read`. A declaration of the tool's own, not a fence."""


def parse_capability(text: str) -> Capability:
    """Check that the text names one domain and one operation. Raises `InvalidInput`."""
    domain, colon, op = text.partition(":")
    if not colon:
        raise InvalidInput(f"{text!r} names no operation: a capability is written domain:op")
    if not domain or not op or ":" in op:
        raise InvalidInput(f"{text!r} is not a capability: one colon, a word on either side")
    return text


class ToolSpec(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as the model and the loop see it."""

    id: str
    description: str
    schema: Json = NO_PARAMETERS
    """JSON schema of the arguments. Shown to the model and counted; never checked here."""
    capabilities: tuple[Capability, ...] = ()
    output_limit: int | None = None
    """Bytes of a result the model is shown; None leaves it to the session's default."""
    idempotent: bool = False
    """Running it twice with one key takes effect once: it may be run again after a crash."""
    reconciles: bool = False
    """It can say by key whether an earlier run took effect."""
    judged: bool = False
    """Its needs, limit or label depend on the call: they are asked of its code each time."""

    def __post_init__(self) -> None:
        canonical(self, schema=NO_PARAMETERS)


class ToolOutput(Struct, frozen=True, gc=False, omit_defaults=True):
    content: AnyContent
    is_error: bool = False

    @staticmethod
    def of(value: object) -> "ToolOutput":
        return value if isinstance(value, ToolOutput) else ToolOutput(content_of(value))

    @staticmethod
    def error(value: object) -> "ToolOutput":
        return ToolOutput(content_of(value), is_error=True)
