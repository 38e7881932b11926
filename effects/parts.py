"""What the parts say of themselves, and where the pure seams are found."""

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import msgspec
from msgspec.structs import replace

from effects.ports import PermissionPolicy, Provider, Tool
from reducers.reducer import Projector, Reducer
from reducers.tokens import TokenCounter
from reducers.vocabulary.errors import InvalidInput
from reducers.vocabulary.events import CounterChanged, ProjectorChanged, SessionStarted
from reducers.vocabulary.inputs import Seams
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.policies import PolicyInfo, Rule, Verdict, parse_rule
from reducers.vocabulary.tools import ToolSpec


class SeamMissing(InvalidInput):
    """A pure seam that a log names cannot be loaded here; without it nothing can be judged."""


@attrs.frozen(init=False)
class Rules:
    """A policy that is data: the core judges by it, and the log holds it.

    `Rules(allow=["add", "fs:read"], deny=["fs:write"])`; what no rule speaks of is asked about.
    """

    rules: tuple[Rule, ...] = ()
    name: str = "Rules"

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        name: str = "Rules",
    ) -> None:
        given: list[tuple[Verdict, Iterable[str]]] = [
            ("allow", allow),
            ("ask", ask),
            ("deny", deny),
        ]
        rules = tuple(parse_rule(verdict, text) for verdict, texts in given for text in texts)
        self.__attrs_init__(rules, name)

    def info(self) -> PolicyInfo:
        return PolicyInfo(self.name, self.rules)


AnyPolicy = PolicyInfo | Rules | PermissionPolicy


def describe_model(provider: Provider) -> ModelInfo:
    check_methods(provider, "provider", "info", "respond")
    return provider.info()


def describe_tool(tool: Tool) -> ToolSpec:
    """The tool's own spec, and which of the optional methods it has."""
    check_methods(tool, "tool (@tool makes one of a function)", "spec", "invoke")
    spec = tool.spec()
    return replace(
        spec,
        judged=spec.judged or hasattr(tool, "needs") or hasattr(tool, "limit"),
        reconciles=spec.reconciles or hasattr(tool, "reconcile"),
    )


def describe_policy(policy: AnyPolicy) -> PolicyInfo:
    if isinstance(policy, PolicyInfo):
        return policy
    info = getattr(policy, "info", None)
    if info is not None:
        return info()  # type: ignore[no-any-return]
    check_methods(policy, "policy", "evaluate")
    name = getattr(policy, "name", None)
    return PolicyInfo(str(name()) if callable(name) else type_path(policy))


def check_methods(part: object, what: str, *methods: str) -> None:
    """Raises `InvalidInput` for what is no such part at all."""
    missing = [name for name in methods if not callable(getattr(part, name, None))]
    if missing:
        kind = type(part).__name__
        raise InvalidInput(f"{kind} is no {what}: it has no method {', '.join(missing)}")


def type_path(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


# -- pure seams --------------------------------------------------------------------------------

SEAM_CHANGES = (ProjectorChanged, CounterChanged)
"""Events after which another reducer judges than before."""
SEAM_EVENTS = (SessionStarted, *SEAM_CHANGES)
"""The same for whoever begins a log without a reducer."""


def seam_of(seam: object) -> str:
    """`MODULE:NAME` of a seam's class, its options as a JSON object behind it where it has any."""
    kind = type(seam)
    place = f"{kind.__module__}:{kind.__qualname__}"
    options = _options(seam)
    place = _ALIASES.get(place, place)
    try:
        return place + msgspec.json.encode(options).decode() if options else place
    except TypeError as error:
        raise InvalidInput(f"the seam {place} has an option that is no JSON: {error}") from None


_ALIASES = {"reducers.linear:LinearProjector": "reducers.projection:LinearProjector"}
"""Names under which a seam is known in logs, wherever its class has moved to."""


def _options(seam: object) -> dict[str, Any]:
    """What has to be given to its class to make an equal one: what `options()` says, or each
    argument of the class that is not at its default, read from the attribute of that name."""
    own = getattr(seam, "options", None)
    if callable(own):
        return dict(own())
    found = {}
    for name, parameter in inspect.signature(type(seam)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value = getattr(seam, name, getattr(seam, f"_{name}", parameter.empty))
        if value is parameter.empty:
            raise InvalidInput(
                f"the seam {type_path(seam)} does not show its argument {name!r}: keep it under "
                "that name, or give the class a method options() that returns all of them"
            )
        if value != parameter.default:
            found[name] = value
    return found


def load_object(place: str) -> Any:
    """The object at `MODULE:NAME`. Raises `InvalidInput` that says which half is wrong."""
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{place!r} names nothing: write MODULE:NAME, such as my_tools:search")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"the module {module_name!r} does not import: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InvalidInput(f"the module {module_name!r} has no {name!r}") from None
    return found


def load_projector(text: str) -> Projector:
    """A projector from what a log says of it. Raises `SeamMissing`."""
    projector: Projector = _load_seam(text, ("project",))
    return projector


def load_counter(text: str) -> TokenCounter:
    """A counter from what a log says of it. Raises `SeamMissing`."""
    counter: TokenCounter = _load_seam(text, ("count_item", "count_message", "price"))
    return counter


def _load_seam(text: str, methods: tuple[str, ...]) -> Any:
    """A log may come from a stranger, who must not choose what code is run: a module that this
    process has not imported itself is not imported, and only a class with the methods of the seam
    is called."""
    place, brace, rest = text.partition("{")
    module = place.partition(":")[0]
    if module and module not in sys.modules and not module.startswith("reducers."):
        raise SeamMissing(
            f"the seam {text!r} is of a module that this program has not loaded, and a log alone "
            "must not make it run one: import it first, or give the seam itself (replay: --with)"
        )
    try:
        found = load_object(place)
        if not isinstance(found, type) or not all(hasattr(found, name) for name in methods):
            raise InvalidInput(f"{place!r} is no class with {', '.join(methods)}")
        return found(**(msgspec.json.decode(brace + rest) if brace else {}))
    except Exception as error:
        raise SeamMissing(f"the seam {text!r} cannot be loaded: {error}") from error


def seams_of(projector: Projector, counter: TokenCounter) -> Seams:
    return Seams(seam_of(projector), seam_of(counter))


def load_reducer(seams: Seams, known: Mapping[str, Any] | None = None) -> Reducer:
    """A reducer under these seams; `known` objects stand for the words that name them."""
    projector = None if known is None else known.get(seams.projector)
    counter = None if known is None else known.get(seams.counter)
    return Reducer(
        load_projector(seams.projector) if projector is None else projector,
        load_counter(seams.counter) if counter is None else counter,
    )
