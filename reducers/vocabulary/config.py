"""How a session is set up. Nothing here changes what the model is told."""

from msgspec import Struct

from reducers.vocabulary.canonical import canonical

QUEUE_DEPTH = 1024


class Config(Struct, frozen=True, gc=False, omit_defaults=True):
    session_name: str | None = None
    """None: the kernel counts its nameless sessions."""
    event_queue_depth: int = QUEUE_DEPTH
    """Events a subscriber may fall behind before it loses the oldest; at least 1."""
    context_undo_depth: int = 16
    """Undo points kept; 0 switches undo and redo off."""
    max_requests_per_turn: int | None = 8
    """Requests one drive of a turn may send; None is no limit, 0 sends none."""
    refuse_oversized_requests: bool = True
    """Refuse here what is estimated above the model's context limit."""
    default_tool_output_limit: int | None = None
    """Bytes of a result the model is shown, for tools that set no limit; None is no limit."""
    keep_truncated_output: bool = True
    """Keep the whole of a shortened output as a second item, not projected."""
    parallel_tool_calls: bool = False
    """Run the calls of one reply at once."""

    def __post_init__(self) -> None:
        canonical(self, event_queue_depth=QUEUE_DEPTH)


DEFAULT_CONFIG = Config()
