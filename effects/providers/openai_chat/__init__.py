"""OpenAI's Chat Completions, and every server that imitates it.

encode.py     a request as the body of a call
decode.py     chunks, or a whole body, as an answer; its parts:
  pieces.py     values from a stranger, text in pieces
  calls.py      tool calls from their fragments
  reasoning.py  reasoning beside the content
  thinking.py   reasoning inside the content
  usage.py      what it cost
bodies.py     answers that are no stream, and what came in their place
failures.py   what a refusal means
provider.py   both ends put together over HTTP
"""

from effects.providers.openai_chat.decode import ChatDecoder, decode_body
from effects.providers.openai_chat.encode import encode_request
from effects.providers.openai_chat.provider import OpenAIChatProvider

__all__ = ["ChatDecoder", "OpenAIChatProvider", "decode_body", "encode_request"]
