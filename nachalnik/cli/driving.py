"""A session on its log, from opening to rest: what `run` and `resume` have in common."""

import contextlib
import math
import os
import sys
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import Any

import anyio
import attrs

from effects.logs.port import LogError
from effects.logs.tail import torn_file
from effects.raised import said
from nachalnik.cli.asking import Asker, list_left_behind, list_open
from nachalnik.cli.command import Stop
from nachalnik.cli.interrupts import Interrupts, has_abandoned_threads
from nachalnik.cli.options import GIVE_MODEL, PartOptions, Parts, parts_of, resuming
from nachalnik.cli.output import complain, standard_output
from nachalnik.cli.statuses import DONE, FAILED, INTERRUPTED, WAITING
from nachalnik.cli.watching import JsonWatcher, TextWatcher, Watcher, catch_up, resting, watch
from nachalnik.cli.words import counted, visible
from nachalnik.kernel import Kernel
from nachalnik.subscriptions import Subscription
from reducers.vocabulary.errors import KernelError
from reducers.vocabulary.phases import Deciding, Finished

CLOSE_S = 2.0
"""Longest time for a provider to close its connections."""


@attrs.define
class Session:
    """An open kernel, with what is done about its questions, its output and Ctrl-C."""

    kernel: Kernel
    log: str
    options: PartOptions
    asker: Asker
    interrupts: Interrupts
    watcher: Watcher
    subscription: Subscription

    async def recover(self) -> int:
        """The tools that can tell how their interrupted runs ended are asked before any person."""
        status = await self._guarded(self.kernel.recover)
        self.catch_up()
        return INTERRUPTED if self.interrupts.count else status

    async def turn(self) -> int:
        """Drive the turn until it is over or somebody else's move; the status that comes to."""
        while True:
            status = await self._guarded(self.kernel.turn)
            self.catch_up()
            if self.interrupts.count:
                return INTERRUPTED
            if status != DONE or not isinstance(self.kernel.state(), Deciding):
                return status or self._at_rest()
            if not self.kernel.pending_questions():
                told = f"`nachalnik replay {quote(self.log)}` tells where"
                complain(f"the log waits for an answer to a question it does not hold: {told}")
                return FAILED
            if not await self.questions():
                return self.unanswered()

    async def questions(self) -> bool:
        """Have the open questions answered; whether none is left."""
        is_answered = await self.asker.answer(self.kernel)
        self.catch_up()
        return is_answered

    def unanswered(self) -> int:
        if self.interrupts.count:
            return INTERRUPTED
        list_open(self.kernel, self.resuming)
        return WAITING

    def absent_tools(self) -> bool:
        """Whether a call is ready whose tool is not in this process; they are told."""
        found = self.kernel.absent_calls()
        for one in found:
            told = f"call {one.call} is ready to run, and this process has no tool {one.tool}"
            complain(visible(f"{told}: give --tools MODULE:NAME"))
        return bool(found)

    def catch_up(self) -> None:
        catch_up(self.subscription, self.watcher)

    def resuming(self, *more: str) -> str:
        return resuming(self.log, self.options, *more)

    def _at_rest(self) -> int:
        if isinstance(self.kernel.state(), Finished):
            return DONE
        limit = self.kernel.config.max_requests_per_turn
        if limit == 0:
            complain("the turn is not at its end: this session lets a turn send no request")
            return FAILED
        why = resting(self.kernel)
        sent = self.kernel.state_at(self.kernel.position).loop.requests
        if limit is not None and sent >= limit:
            why = f"it rests after {counted(sent, 'request')}, as many as it may send at a time"
        complain(f"the turn is not at its end: {why}. `{self.resuming()}` goes on")
        return FAILED

    async def _guarded(self, work: Callable[[], Awaitable[Any]]) -> int:
        """Await something of the kernel; a failure is told here, where it happens."""
        before = self.kernel.last_seq()
        try:
            with self.interrupts.guard(self._interrupt):
                await work()
        except KernelError as error:
            self.catch_up()
            complain(visible(f"the turn failed: {error}"))
            if not isinstance(error, LogError):
                complain(f"`{self.resuming()}` tries again")
            return FAILED
        except Exception as error:
            # A tool or policy that raised while it was asked about a call: the step failed, and the
            # log says so. What the log does not know is a fault, and shown as one.
            if all(one.name != "step.failed" for one in self.kernel.history_since(before)):
                raise
            self.catch_up()
            complain(visible(f"the turn failed: {type(error).__name__}: {said(error)}"))
            complain(f"`{self.resuming()}` tries again")
            return FAILED
        return DONE

    def _interrupt(self) -> None:
        complain("interrupted: the turn rests before its next step; Ctrl-C again leaves it now")
        with contextlib.suppress(KernelError):  # a log that cannot be written ends the turn itself
            self.kernel.interrupt()


def drive(
    log: str,
    options: PartOptions,
    asker: Callable[[Interrupts, Parts], Asker],
    work: Callable[[Session], Awaitable[int]],
    *,
    is_json: bool,
    needs_model: bool,
) -> int:
    """Open the log, do the work, close it; the exit status. Raises the errors of opening."""
    with standard_output(is_json) as output:
        parts = parts_of(options, log)
        if needs_model and parts.provider is None:
            raise Stop(f"nobody to answer: {GIVE_MODEL}")
        with Interrupts() as interrupts:

            async def main() -> int:
                interrupts.attach()
                watcher = JsonWatcher(output) if is_json else TextWatcher(output)
                kernel = _opened(log, parts)
                try:
                    answers = asker(interrupts, parts)
                    told = kernel.subscribe(depth=math.inf)  # every fragment is printed
                    session = Session(kernel, log, options, answers, interrupts, watcher, told)
                    return await _watched(session, work)
                finally:
                    await _close(kernel)

            status = anyio.run(main)
    if interrupts.count and has_abandoned_threads():
        # The log is closed; a tool that cannot be stopped would keep the process.
        sys.stdout.flush()
        os._exit(status)
    return status


def _opened(log: str, parts: Parts) -> Kernel:
    torn = _torn_bytes(log)
    kernel = Kernel.open(log, provider=parts.provider, tools=parts.tools, policy=parts.rules)
    if (cut := _torn_bytes(log) - torn) > 0:
        complain(f"{log}: {counted(cut, 'byte')} of a torn commit set aside in {log}.torn")
    return kernel


async def _watched(session: Session, work: Callable[[Session], Awaitable[int]]) -> int:
    """Do the work and show what happens meanwhile; raise what it raised when all is shown."""
    raised: Exception | None = None
    status = FAILED
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, session.subscription, session.watcher)
        try:
            status = INTERRUPTED if session.interrupts.count else await work(session)
        except Exception as error:
            raised = error
        session.catch_up()
        session.subscription.close()
    if isinstance(raised, LogError):
        raise Stop(str(raised), FAILED) from raised
    if raised is not None:
        raise raised
    if session.interrupts.count:
        status = INTERRUPTED
        list_left_behind(session.kernel, session.resuming)
    session.watcher.rest(session.kernel, status)
    return status


async def _close(kernel: Kernel) -> None:
    try:
        close = getattr(kernel.provider(), "aclose", None)
        if close is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await close()
    finally:
        try:
            kernel.close()
        except LogError as error:
            raise Stop(str(error), FAILED) from error


def _torn_bytes(log: str) -> int:
    try:
        return os.path.getsize(torn_file(os.path.realpath(log)))
    except OSError:
        return 0
