"""The parts of a session: provider, tools, policy, seams, parameters."""

from typing import Any

from effects.parts import (
    AnyPolicy,
    check_methods,
    describe_model,
    describe_policy,
    describe_tool,
    seam_of,
)
from effects.ports import Provider, Tool
from nachalnik.face.face import Face, as_json
from reducers.machines import parts as parts_machine
from reducers.reducer import Projector
from reducers.tokens import TokenCounter
from reducers.vocabulary.errors import (
    InvalidInput,
)
from reducers.vocabulary.inputs import (
    PartsDescribed,
    RecountItems,
    SetParams,
)
from reducers.vocabulary.json import Json, object_problem
from reducers.vocabulary.models import ModelInfo
from reducers.vocabulary.tools import ToolSpec


class PartsFace(Face):
    """Setting parts, and telling the log what they say of themselves."""

    def set_provider(self, provider: Provider) -> Provider | None:
        """Returns the previous one."""
        info = describe_model(provider)
        with self._writer.lock:
            previous = self._ports.provider
            self._apply(PartsDescribed(model=info, announce=True))
            self._ports.provider = provider
        return previous

    def clear_provider(self) -> Provider | None:
        with self._writer.lock:
            previous = self._ports.provider
            self._apply(PartsDescribed(model=None, announce=True))
            self._ports.provider = None
        return previous

    def provider_changed(self) -> bool:
        """Announce a provider that switched its model in place; False if it did not."""
        provider = self._ports.provider
        if provider is None:
            return False
        return bool(self._apply(PartsDescribed(model=describe_model(provider))))

    def provider(self) -> Provider | None:
        return self._ports.provider

    def model_info(self) -> ModelInfo | None:
        return parts_machine.model(self._writer.state.parts)

    def add_tool(self, tool: Tool) -> Tool | None:
        """Register a tool under its spec's id; returns the one it replaces."""
        name = describe_tool(tool).id
        with self._writer.lock:
            previous = self._ports.tools.get(name)
            self._set_tools({**self._ports.tools, name: tool})
        return previous

    def remove_tool(self, id: str) -> Tool | None:
        with self._writer.lock:
            previous = self._ports.tools.get(id)
            if previous is not None:
                rest = {name: tool for name, tool in self._ports.tools.items() if name != id}
                self._set_tools(rest)
        return previous

    def _set_tools(self, tools: dict[str, Tool]) -> None:
        with self._writer.lock:
            self._apply(PartsDescribed(tools=specs_of(tools), announce=True))
            self._ports.tools = tools

    def tool(self, id: str) -> Tool | None:
        return self._ports.tools.get(id)

    def tool_ids(self) -> list[str]:
        """In the order they are offered to the model."""
        return sorted(self._ports.tools)

    def tool_specs(self) -> list[ToolSpec]:
        return list(specs_of(self._ports.tools))

    def set_policy(self, policy: AnyPolicy) -> AnyPolicy | None:
        with self._writer.lock:
            previous = self.policy()
            self._apply(PartsDescribed(policy=describe_policy(policy), announce=True))
            self._ports.policy = policy
        return previous

    def policy(self) -> AnyPolicy | None:
        policy: AnyPolicy | None = self._ports.policy
        return policy

    def set_projector(self, projector: Projector) -> Projector:
        """The class must be importable by name, for the log to be judged again elsewhere."""
        with self._writer.lock:
            previous = self._writer.reducer.projector
            check_methods(projector, "projector", "project")
            self._writer.seams[seam_of(projector)] = projector
            self._apply(PartsDescribed(projector=seam_of(projector), announce=True))
        return previous

    def projector(self) -> Projector:
        return self._writer.reducer.projector

    def set_counter(self, counter: TokenCounter) -> TokenCounter:
        """As `set_projector`; every item is measured anew."""
        with self._writer.lock:
            previous = self._writer.reducer.counter
            check_methods(counter, "counter", "count_item", "count_message", "price")
            self._writer.seams[seam_of(counter)] = counter
            self._apply(PartsDescribed(counter=seam_of(counter), announce=True))
            self._apply(RecountItems())
        return previous

    def counter(self) -> TokenCounter:
        return self._writer.reducer.counter

    def set_params(self, params: dict[str, Any] | Json) -> dict[str, Any]:
        """Parameters sent with every request, verbatim; returns the previous ones."""
        text = Json(params) if isinstance(params, str) else as_json(params, "a parameter")
        problem = object_problem(text)
        if problem is not None:
            raise InvalidInput(f"the parameters are not one JSON object: {problem}")
        with self._writer.lock:
            previous = self.params()
            self._apply(SetParams(text))
        return previous

    def params(self) -> dict[str, Any]:
        import msgspec

        return msgspec.json.decode(self._writer.state.parts.params)  # type: ignore[no-any-return]

    def _describe_again(self) -> None:
        """Specs are asked for before the loop moves; what did not change is silence."""
        provider = self._ports.provider
        known = self._writer.state.parts
        changed: dict[str, Any] = {}
        if provider is not None:
            info = describe_model(provider)
            if info != known.model:
                changed["model"] = info
        specs = specs_of(self._ports.tools)
        if specs != parts_machine.tools(known):
            changed["tools"] = specs
        if self._ports.policy is not None:
            policy = describe_policy(self._ports.policy)
            if policy != parts_machine.policy(known):
                changed["policy"] = policy
        if changed:
            self._apply(PartsDescribed(**changed))


def specs_of(tools: dict[str, Tool]) -> tuple[ToolSpec, ...]:
    specs = [describe_tool(tool) for tool in tools.values()]
    return tuple(sorted(specs, key=lambda spec: spec.id))
