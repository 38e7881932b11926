"""Checking a log: all that must be true of it, whoever wrote it and whatever became of it since.

Beyond its bytes (chain, positions, large contents) it is folded, and every request it tells of is
drawn again: the digest must be the one that was sent, and each call must be answered once. Reads
only; never locks. What a crash may leave behind is a note, not a finding.
"""

import os
from collections import Counter
from collections.abc import Iterator

import attrs
import msgspec

from effects.logs.cache import CACHE_FORMAT, Cache, CacheHead, CacheRefused, cache_file, read_cache
from effects.logs.contents import ContentFolder, is_digest
from effects.logs.lines import open_file
from effects.logs.port import LogDamaged, LogMissing, LogUnreadable
from effects.logs.scan import LogView, check_log, read_log
from effects.logs.syscalls import SYSCALLS, let_go, read_file, reason_of
from effects.replay import initial_of
from nachalnik.redrawing import RequestsAgain
from reducers.codec import (
    Header,
    UnreadableCommit,
    UnreadableHeader,
    decode_commit,
    decode_header,
)
from reducers.state import Commit, State, fold
from reducers.statecodec import FINGERPRINT, encode_state
from reducers.vocabulary.events import (
    Recorded,
    SessionStarted,
    ToolFinished,
    ToolRequested,
    ToolRetried,
    ToolStarted,
)

LOST = b'{"tag":"text","text":""}'
"""Stands for a content that cannot be read, so that the rest of the log can be looked at."""


@attrs.frozen
class Finding:
    """Something that is not as it must be. `line` counts from 1; None: it is about another file."""

    line: int | None
    kind: str
    """`bytes`, `header`, `fold`, `order`, `request`, `pairing`, `call`, `content` or `cache`."""
    text: str

    def __str__(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        return f"{where}{self.kind}: {self.text}"


@attrs.frozen
class Examination:
    """What was found. `commits` and `events` are those that could be read and folded."""

    commits: int
    events: int
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]


def check(path: str | os.PathLike[str]) -> list[Finding]:
    """Every finding on a log; none when all is well. Raises what `examine` raises."""
    return list(examine(path).findings)


def examine(path: str | os.PathLike[str]) -> Examination:
    """Look at everything of a log.

    Raises `LogMissing`, `NotALog`, `NewerLog`, `LogUnreadable` for what is no log to begin with.
    """
    path = os.path.realpath(path)
    scanned = list(check_log(path))
    walk = _Walk(path)
    walk.read_cache()
    try:
        with read_log(path) as view:
            walk.go(view)
    except (LogDamaged, LogMissing):
        pass  # `check_log` has told the damage; a log that is gone since then has no more to tell
    for one in scanned:
        if one.line is None:
            walk.add_content(one.text)
        elif walk.torn and one.line == walk.lines + 1:
            walk.add_torn(one.line, one.text)
        elif one.line > walk.lines:  # else its writer has ended the line in between
            walk.findings.append(Finding(one.line, "bytes", one.text))
    walk.end()
    ordered = sorted(walk.findings, key=lambda one: (one.line is None, one.line or 0))
    return Examination(walk.commits, walk.events, tuple(ordered), tuple(walk.notes))


class _Walk:
    """One pass over the commits of a log: fold, compare, count."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self.notes: list[Finding] = []
        self.commits = 0
        self.events = 0
        self.lines = 0
        """Lines read and verified, the header included."""
        self.torn = 0
        self._is_newline_gone = False
        self._folder = ContentFolder(SYSCALLS, path)
        self._named: set[str] = set()
        self._lost: set[str] = set()
        self._is_whole = False
        """Every commit was read and folded."""
        self._calls = _Calls()
        self._requests = RequestsAgain()
        self._cache: Cache | None = None

    def _find(self, kind: str, text: str) -> None:
        self.findings.append(Finding(self.lines, kind, text))

    # -- the walk ----------------------------------------------------------------------------

    def go(self, view: LogView) -> None:
        self.lines = 1
        try:
            header = decode_header(view.header)
        except UnreadableHeader as error:
            self._find("header", f"it cannot be read: {error.__cause__}")
            return
        state: State | None = initial_of(header)
        for line, value in view.commits:
            self.lines = line
            if state is not None:
                state = self._take(header, state, value)
        self._is_whole = state is not None
        self.torn = view.torn
        self._is_newline_gone = bool(view.torn) and not _is_newline(
            self.path, view.place.offset - 1
        )
        if self._cache is not None and self._is_whole:
            text = f"it is of position {self._cache.position}, which the log does not have"
            self.findings.append(Finding(None, "cache", f"{cache_file(self.path)}: {text}"))

    def _take(self, header: Header, before: State, value: bytes) -> State | None:
        """The state behind one more commit; None where the log cannot be folded any further."""
        try:
            commit = decode_commit(value, self._load)
            after = fold(before, commit.events)
        except UnreadableCommit as error:
            self._find("fold", str(error))
            return None
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._find("fold", f"position {before.position + 1} does not fold: {said}")
            return None
        self.commits += 1
        self.events += len(commit.events)
        try:
            self._compare(header, before, commit, after)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._find("fold", f"position {after.position} folds to what cannot be used: {said}")
        return after

    def _compare(self, header: Header, before: State, commit: Commit, after: State) -> None:
        seq = before.last_seq
        for event in commit.events:
            if isinstance(event, Recorded):
                seq += 1
                if event.seq != seq:
                    self._find("order", f"an event has the number {event.seq}, not {seq}")
            if isinstance(event, SessionStarted):
                given = (event.log, event.session)
                if given != (header.log, header.session):
                    self._find("header", "it names another session than the first commit")
            problem = self._calls.problem(event)
            if problem:
                self._find("call", problem)
        if self._lost:
            return  # figures and digests of what is lost cannot be compared
        for kind, problem in self._requests.problems(commit, after):
            self._find(kind, problem)
        if note := self._requests.take_note():
            self.notes.append(Finding(self.lines, "request", note))
        self._compare_cache(after)

    # -- large contents ----------------------------------------------------------------------

    def _load(self, digest: str) -> bytes:
        self._named.add(digest)
        try:
            return self._folder.read(digest)
        except (LogDamaged, LogUnreadable) as problem:
            self._lost.add(digest)
            self._find("content", f"{digest}: {problem.reason}")
        return LOST

    def add_content(self, text: str) -> None:
        """What `check_log` says of a content's file; of one that a commit names it is told."""
        if not any(digest in text for digest in self._lost):
            self.findings.append(Finding(None, "content", text))

    def _unnamed(self) -> Iterator[str]:
        try:
            names = SYSCALLS.names(f"{self.path}.d")
        except OSError:
            return
        yield from (name for name in names if not (is_digest(name) and name in self._named))

    # -- the end -----------------------------------------------------------------------------

    def add_torn(self, line: int, text: str) -> None:
        """A crash leaves a line without its end. It never leaves anything behind a whole line."""
        if self._is_newline_gone:
            text = f"the byte that ends line {line - 1} was changed; {text}"
            self.findings.append(Finding(line - 1, "bytes", text))
        else:
            self.notes.append(Finding(line, "bytes", text))

    def end(self) -> None:
        if not self._is_whole:
            return
        for name in self._unnamed():
            text = f"{self.path}.d/{name}: no commit names it; a crash may have left it"
            self.notes.append(Finding(None, "content", text))

    # -- the state cache ---------------------------------------------------------------------

    def read_cache(self) -> None:
        """Take the cache that an opening would use; tell why one is not used. Before the log is
        read, since a log in use goes on and its cache with it."""
        name = cache_file(self.path)
        fd = open_file(SYSCALLS, self.path)
        try:
            found = read_cache(SYSCALLS, self.path, fd, SYSCALLS.fstat(fd).st_size, FINGERPRINT)
        except OSError as error:
            raise LogUnreadable(self.path, reason_of(error)) from error
        except CacheRefused as refused:
            finding = Finding(None, "cache", f"{name}: {refused}; it can be deleted")
            (self.notes if _is_foreign(name) else self.findings).append(finding)
            return
        finally:
            let_go(SYSCALLS, fd)
        self._cache = None if found is None else found[1]

    def _compare_cache(self, state: State) -> None:
        cache = self._cache
        if cache is None or cache.position != state.position:
            return
        self._cache = None
        if encode_state(state) != cache.state:
            text = f"{cache_file(self.path)}: it is not what the log folds to; delete it"
            self.findings.append(Finding(None, "cache", text))


def _is_foreign(name: str) -> bool:
    """A cache of another version, which is ignored and no damage."""
    try:
        line = read_file(SYSCALLS, name).partition(b"\n")[0]
        head = msgspec.json.decode(line, type=CacheHead)
    except (OSError, ValueError, RecursionError):
        return False
    return head.state_cache != CACHE_FORMAT or head.fingerprint != FINGERPRINT


def _is_newline(path: str, place: int) -> bool:
    fd = open_file(SYSCALLS, path)
    try:
        return SYSCALLS.pread(fd, 1, place) == b"\n"
    except OSError as error:
        raise LogUnreadable(path, reason_of(error)) from error
    finally:
        let_go(SYSCALLS, fd)


# -- calls -------------------------------------------------------------------------------------


class _Calls:
    """Each call is asked for once, started once but for an order to retry, answered once."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._may_start: set[str] = set()
        self._results: Counter[str] = Counter()

    def problem(self, event: object) -> str:
        match event:
            case ToolRequested(call=call):
                again = call in self._asked
                self._asked.add(call)
                self._may_start.add(call)
                return f"the call id {call!r} is used again" if again else ""
            case ToolRetried(call=call):
                self._may_start.add(call)
            case ToolStarted(call=call):
                if call not in self._may_start:
                    return f"call {call!r} is started again without an order"
                self._may_start.discard(call)
            case ToolFinished(call=call):
                self._results[call] += 1
                if call not in self._asked:
                    return f"call {call!r} has a result and was never asked for"
                if self._results[call] > 1:
                    return f"call {call!r} has {self._results[call]} results"
        return ""
