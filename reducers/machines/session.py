"""The session: its name, its log, its configuration and its pure seams.

I-SESSION-1  The log id and the name never change.
I-SESSION-2  The seams named here are those that judge the next input.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reducers.vocabulary.config import Config
from reducers.vocabulary.events import (
    CounterChanged,
    ProjectorChanged,
    SessionFinished,
    SessionOpened,
    SessionStarted,
)
from reducers.vocabulary.inputs import DEFAULT_SEAMS, Seams


class Session(Struct, frozen=True, gc=False):
    name: str = ""
    log: str = ""
    config: Config = Config()
    seams: Seams = DEFAULT_SEAMS
    is_finished: bool = False


def started(session: Session, event: SessionStarted, here: int) -> Session:
    return Session(event.session, event.log, event.config, event.seams)


def opened(session: Session, event: SessionOpened, here: int) -> Session:
    config = session.config if event.config is None else event.config
    return replace(session, config=config, is_finished=False)


def finished(session: Session, event: SessionFinished, here: int) -> Session:
    return replace(session, is_finished=True)


def projector_changed(session: Session, event: ProjectorChanged, here: int) -> Session:
    return replace(session, seams=replace(session.seams, projector=event.to))


def counter_changed(session: Session, event: CounterChanged, here: int) -> Session:
    return replace(session, seams=replace(session.seams, counter=event.to))


EVOLVE: dict[type, Callable[[Session, Any, int], Session]] = {
    SessionStarted: started,
    SessionOpened: opened,
    SessionFinished: finished,
    ProjectorChanged: projector_changed,
    CounterChanged: counter_changed,
}
