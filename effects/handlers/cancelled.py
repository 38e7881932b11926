"""Was this task asked to stop, or only something that it awaited?"""

import math

import anyio


def is_cancelled() -> bool:
    """Ask it on a cancellation exception. False: it came out of a tool or a provider by itself, and
    says no more than that what they waited for was cancelled."""
    import asyncio

    if anyio.current_effective_deadline() == -math.inf:
        return True
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return True  # elsewhere only a cancelled scope raises it, and a scope keeps its own
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
