"""A runtime for language-model agents in which everything is state you can read, change and replay.

`Kernel` is the door: one session, nothing in the background. Names are loaded when they are used.
"""

__version__ = "0.1.0"
DISTRIBUTION = "nachalnik 0.1.0"

TYPE_CHECKING = False  # as `typing` has it, whose import would double the time of `--version`
if TYPE_CHECKING:
    from typing import Any

    from effects.logs.port import LogError, SessionOwned
    from effects.parts import Rules
    from effects.ports import (
        DeltaSink,
        OutputSink,
        PermissionRequest,
        ProviderFailure,
        StreamTruncated,
        ToolError,
    )
    from effects.providers.openai_chat import OpenAIChatProvider
    from effects.providers.scripted import ScriptedProvider
    from effects.tools.function import tool
    from nachalnik.kernel import Kernel
    from reducers.vocabulary.config import Config
    from reducers.vocabulary.content import Blob, Blocks, JsonContent, Text, ToolCall
    from reducers.vocabulary.errors import (
        AlreadyResolved,
        Busy,
        EmptyProjection,
        InvalidInput,
        KernelError,
        NoProvider,
        NoTool,
        ProviderError,
        Reentered,
        SeamFailed,
        TooLong,
        UnknownCall,
        UnknownItem,
        UnknownPermission,
    )
    from reducers.vocabulary.items import ContextItem
    from reducers.vocabulary.messages import Message, ModelRequest
    from reducers.vocabulary.models import ModelInfo, ModelResponse, Usage
    from reducers.vocabulary.tools import ToolOutput, ToolSpec

_HOMES = {
    "nachalnik.kernel": ("Kernel",),
    "effects.parts": ("Rules",),
    "effects.ports": (
        "DeltaSink",
        "OutputSink",
        "PermissionRequest",
        "ProviderFailure",
        "StreamTruncated",
        "ToolError",
    ),
    "effects.providers.openai_chat": ("OpenAIChatProvider",),
    "effects.providers.scripted": ("ScriptedProvider",),
    "effects.tools.function": ("tool",),
    "reducers.vocabulary.config": ("Config",),
    "reducers.vocabulary.content": ("Blob", "Blocks", "JsonContent", "Text", "ToolCall"),
    "effects.logs.port": ("LogError", "SessionOwned"),
    "reducers.vocabulary.errors": (
        "AlreadyResolved",
        "Busy",
        "EmptyProjection",
        "InvalidInput",
        "KernelError",
        "NoProvider",
        "NoTool",
        "ProviderError",
        "Reentered",
        "SeamFailed",
        "TooLong",
        "UnknownCall",
        "UnknownItem",
        "UnknownPermission",
    ),
    "reducers.vocabulary.items": ("ContextItem",),
    "reducers.vocabulary.messages": ("Message", "ModelRequest"),
    "reducers.vocabulary.models": ("ModelInfo", "ModelResponse", "Usage"),
    "reducers.vocabulary.tools": ("ToolOutput", "ToolSpec"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AlreadyResolved",
    "Blob",
    "Blocks",
    "Busy",
    "Config",
    "ContextItem",
    "DeltaSink",
    "EmptyProjection",
    "InvalidInput",
    "JsonContent",
    "Kernel",
    "KernelError",
    "LogError",
    "Message",
    "ModelInfo",
    "ModelRequest",
    "ModelResponse",
    "NoProvider",
    "NoTool",
    "OpenAIChatProvider",
    "OutputSink",
    "PermissionRequest",
    "ProviderError",
    "ProviderFailure",
    "Reentered",
    "Rules",
    "ScriptedProvider",
    "SeamFailed",
    "SessionOwned",
    "StreamTruncated",
    "Text",
    "TooLong",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "ToolSpec",
    "UnknownCall",
    "UnknownItem",
    "UnknownPermission",
    "Usage",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> "Any":
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'nachalnik' has no attribute {name!r}")
    _check_packages()
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _check_packages() -> None:
    """Another distribution also installs a `reducers`; say so plainly instead of failing oddly."""
    import effects
    import reducers

    for package in (reducers, effects):
        found = getattr(package, "DISTRIBUTION", None)
        if found != DISTRIBUTION:
            place = getattr(package, "__file__", "an unknown place")
            raise ImportError(
                f"the package {package.__name__!r} at {place} is not the one of {DISTRIBUTION}: "
                f"another distribution installed over it. Reinstall nachalnik in an environment "
                f"of its own"
            )


def __dir__() -> list[str]:
    return sorted(__all__)
