"""`CallModel`: ask the provider, and say what came of it."""

import attrs

from effects.ports import DeltaSink, Provider, ProviderFailure
from reducers.announce import ModelWork
from reducers.vocabulary.effects import CallModel
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.inputs import Failure, ModelSettled
from reducers.vocabulary.models import ModelResponse


@attrs.frozen
class ModelAnswer:
    """The input that settles the effect, and the exception behind a failure, for the caller."""

    input: ModelSettled
    cause: Exception | None = None


async def call_model(
    effect: CallModel, work: ModelWork, provider: Provider | None, sink: DeltaSink
) -> ModelAnswer:
    """Whatever the provider raises is an answer too: the request failed, and why."""
    if provider is None:
        return _failed(effect, ProviderFailure("the provider is gone", "model.absent"))
    try:
        response = await provider.respond(work.request, sink)
        if not isinstance(response, ModelResponse):
            raise TypeError(f"respond() returned {type(response).__name__}, not a ModelResponse")
    except Exception as error:
        return _failed(effect, error)
    finally:
        sink.close()
    return ModelAnswer(ModelSettled(effect.id, response))


def _failed(effect: CallModel, error: Exception) -> ModelAnswer:
    too_long = TooLong.of(error)
    failure = Failure(
        error=str(error) or type(error).__name__,
        code="model.too_long" if too_long else getattr(error, "code", "model.failed"),
        overrun=None if too_long is None else too_long.overrun,
    )
    return ModelAnswer(ModelSettled(effect.id, failure=failure), error)
