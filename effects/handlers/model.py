"""`CallModel`: ask the provider, and say what came of it."""

import anyio
from msgspec import Struct

from effects.handlers.cancelled import is_cancelled
from effects.ports import DeltaSink, Provider, ProviderFailure
from effects.raised import said
from reducers.announce import ModelWork
from reducers.vocabulary.effects import CallModel
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.inputs import Failure, ModelSettled
from reducers.vocabulary.models import ModelResponse


class ModelAnswer(Struct, frozen=True, gc=False):
    """The input that settles the effect, and the exception behind a failure, for the caller."""

    input: ModelSettled
    cause: Exception | SystemExit | None = None


async def call_model(
    effect: CallModel, work: ModelWork, provider: Provider | None, sink: DeltaSink
) -> ModelAnswer:
    """Whatever the provider raises is an answer too: the request failed, and why."""
    if provider is None:
        return failed(effect, ProviderFailure("the provider is gone", "model.absent"))
    try:
        response = await provider.respond(work.request, sink)
        if not isinstance(response, ModelResponse):
            raise TypeError(f"respond() returned {type(response).__name__}, not a ModelResponse")
    except (Exception, SystemExit) as error:
        return failed(effect, error)
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            sink.abandon()
            raise
        return failed(effect, ProviderFailure("what the provider waited for was cancelled"))
    except BaseException:
        sink.abandon()
        raise
    finally:
        sink.close()
    return ModelAnswer(ModelSettled(effect.id, response, mended=sink.mended))


def failed(effect: CallModel, error: Exception | SystemExit) -> ModelAnswer:
    """The failure an exception amounts to. A `code` is believed of our own exceptions only."""
    too_long = TooLong.of(error)
    code = error.code if isinstance(error, ProviderFailure) else "model.failed"
    failure = Failure(
        error=said(error),
        code="model.too_long" if too_long else code,
        overrun=None if too_long is None else too_long.overrun,
    )
    return ModelAnswer(ModelSettled(effect.id, failure=failure), error)
