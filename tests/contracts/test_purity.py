"""The core imports only what is deterministic, and iterates nothing in hash order.

An allow-list: a module that nobody thought of is refused until somebody adds it here. The checks
read the source and do not run it. The one for hash order is a best effort: it sees literals,
calls, names whose kind shows in the same function, and fields whose name is annotated as hashed
in every class of the core that has it; it does not see what a function returns.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

CORE = Path(__file__).resolve().parents[2] / "reducers"

MODULES = frozenset(
    """
    __future__ abc bisect collections copy dataclasses enum functools hashlib heapq itertools json
    math operator re struct types typing unicodedata
    attrs msgspec reducers rpds
    """.split()
)
BUILTINS = frozenset(
    "__import__ breakpoint compile eval exec globals input open print vars".split()
)
HASH_ORDERED = frozenset("set frozenset HashTrieMap HashTrieSet TextMap TextSet".split())
SET_ANNOTATIONS = HASH_ORDERED | frozenset("Set AbstractSet MutableSet FrozenSet".split())
KEEPS_ORDERING = frozenset(
    """
    copy difference discard insert intersection items keys remove symmetric_difference union update
    values
    """.split()
)
ORDER_TAKERS = frozenset(
    "dict enumerate extend filter fromkeys iter join list map next reversed tuple zip".split()
)
ORDER_LOSERS = frozenset("all any frozenset len set sorted".split())
SET_OPERATORS = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
ATTRS_DECORATORS = frozenset("define frozen mutable attrs".split())


class Finding(NamedTuple):
    line: int
    rule: str
    what: str


def check(source: str, fields: frozenset[str] | None = None) -> list[Finding]:
    """All that is wrong with one module of the core, in the order of its lines.

    `fields` names the hashed fields of the whole core; without it, the module's own are taken.
    """
    tree = ast.parse(source)
    fields = hashed_fields([tree]) if fields is None else fields
    found = [*imports(tree), *calls(tree), *postponed_annotations(tree), *hash_order(tree, fields)]
    return sorted(found)


# -- imports, calls, annotations -------------------------------------------------------


def imports(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:  # a relative import stays inside the core
                continue
        for module in modules:
            if module.partition(".")[0] not in MODULES:
                yield Finding(node.lineno, "import", module)


def calls(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                yield Finding(node.lineno, "call", name)
            case ast.Global(names=names):
                yield Finding(node.lineno, "global", ", ".join(names))


def postponed_annotations(tree: ast.Module) -> Iterator[Finding]:
    """msgspec and attrs resolve annotations when the program runs, so they must not be text."""
    postponed = [
        node
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    if postponed and any(is_data_class(node) for node in ast.walk(tree)):
        yield Finding(postponed[0].lineno, "annotations", "__future__ beside a Struct")


def is_data_class(node: ast.AST) -> bool:
    """A Struct, an attrs class, or a class with options (`tag=`, `frozen=`) of a base elsewhere."""
    if not isinstance(node, ast.ClassDef):
        return False
    options = {keyword.arg for keyword in node.keywords} - {"metaclass"}
    decorators = {last_name(decorator) for decorator in node.decorator_list}
    bases = {last_name(base) for base in node.bases}
    return bool(options or "Struct" in bases or decorators & ATTRS_DECORATORS)


def last_name(node: ast.expr | None) -> str:
    """The last word of `name`, `module.name`, `name(...)` and `name[...]`; of others, nothing."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return last_name(inner)
        case _:
            return ""


# -- hash order ------------------------------------------------------------------------


def hash_order(tree: ast.Module, fields: frozenset[str]) -> list[Finding]:
    visitor = HashOrder(fields)
    visitor.visit(tree)
    return visitor.found


def hashed_fields(trees: Iterable[ast.Module]) -> frozenset[str]:
    hashed: set[str] = set()
    plain: set[str] = set()
    for tree in trees:
        for owner in ast.walk(tree):
            for node in owner.body if isinstance(owner, ast.ClassDef) else ():
                match node:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                        held = last_name(annotation) in SET_ANNOTATIONS
                        (hashed if held else plain).add(name)
    return frozenset(hashed - plain)


class HashOrder(ast.NodeVisitor):
    """Finds where the order of a hashed collection reaches a result."""

    def __init__(self, fields: frozenset[str]) -> None:
        self.fields = fields
        self.found: list[Finding] = []
        self.scopes: list[frozenset[str]] = []
        self.forgiven: set[ast.AST] = set()

    def is_hashed(self, node: ast.expr | None) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return any(name in scope for scope in self.scopes)
            case ast.Attribute(attr=name):
                return name in self.fields
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                kept = name in KEEPS_ORDERING and self.is_hashed(value)
                return kept or name in HASH_ORDERED or last_name(value) in HASH_ORDERED
            case ast.Call(func=func):
                return last_name(func) in HASH_ORDERED
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, SET_OPERATORS):
                sides = (left, right)
                return any(self.is_hashed(side) or is_key_view(side) for side in sides)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_hashed(body) or self.is_hashed(orelse)
            case ast.NamedExpr(value=value):
                return self.is_hashed(value)
            case _:
                return False

    def refuse_if_hashed(self, node: ast.expr | None) -> None:
        if node is not None and self.is_hashed(node):
            self.found.append(Finding(node.lineno, "hash order", ast.unparse(node)))

    # Scopes: names that hold a hashed collection in the function at hand.

    def scope(self, node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scopes.append(frozenset())
        self.scopes[-1] = frozenset(self.hashed_names(node))
        self.generic_visit(node)
        self.scopes.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self.scope(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scope(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.scope(node)

    def hashed_names(self, scope: ast.AST) -> set[str]:
        hashed: set[str] = set()
        plain: set[str] = set()
        for node in own_nodes(scope):
            match node:
                case ast.arg(arg=name, annotation=annotation) if annotation is not None:
                    held = last_name(annotation) in SET_ANNOTATIONS
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    held = last_name(annotation) in SET_ANNOTATIONS
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    held = self.is_hashed(value)
                case _:
                    continue
            (hashed if held else plain).add(name)
        return hashed - plain

    # Where order is taken.

    def visit_For(self, node: ast.For) -> None:
        self.refuse_if_hashed(node.iter)
        self.generic_visit(node)

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp | ast.DictComp) -> None:
        if node not in self.forgiven:
            for generator in node.generators:
                self.refuse_if_hashed(generator.iter)
        self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.comprehension(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self.comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if name in ORDER_LOSERS:
            self.forgiven.update(node.args)
        elif name in ORDER_TAKERS and node not in self.forgiven:
            for argument in node.args:
                self.refuse_if_hashed(argument)
        elif name == "pop" and isinstance(node.func, ast.Attribute) and not node.args:
            self.refuse_if_hashed(node.func.value)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if node not in self.forgiven:
            self.refuse_if_hashed(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self.forgiven.update(node.elts)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.refuse_if_hashed(node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            self.refuse_if_hashed(node.value)
        self.generic_visit(node)


def is_key_view(node: ast.expr) -> bool:
    """`a.keys() - b.keys()` is a set even where `a` is a dict."""
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "items"), args=[]):
            return True
        case _:
            return False


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions inside it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting = [*ast.iter_child_nodes(node), *waiting]


# -- the core --------------------------------------------------------------------------


def core_modules() -> list[Path]:
    return sorted(CORE.rglob("*.py"))


def test_there_is_a_core_to_check():
    assert core_modules()


@pytest.fixture(scope="module")
def fields():
    return hashed_fields(ast.parse(path.read_text(encoding="utf-8")) for path in core_modules())


@pytest.mark.parametrize("path", core_modules(), ids=lambda path: str(path.relative_to(CORE)))
def test_the_core_is_pure(path, fields):
    found = check(path.read_text(encoding="utf-8"), fields)
    assert found == [], "\n".join(f"{path}:{line}: {rule}: {what}" for line, rule, what in found)


# -- the check itself ------------------------------------------------------------------


def rules(findings: Iterable[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import time", "import"),
        ("import os.path", "import"),
        ("from datetime import datetime", "import"),
        ("from effects.ports import Clock", "import"),
        ("def f():\n    import random", "import"),
        ("if TYPE_CHECKING:\n    import asyncio", "import"),
        ("open('x')", "call"),
        ("print('x')", "call"),
        ("def f():\n    return input()", "call"),
        ("eval('1')", "call"),
        ("exec('1')", "call"),
        ("__import__('time')", "call"),
        ("def f():\n    global n\n    n = 1", "global"),
        ("from __future__ import annotations\nclass A(Struct): ...", "annotations"),
        ("from __future__ import annotations\nclass A(msgspec.Struct): ...", "annotations"),
        ("from __future__ import annotations\nclass A(Base, tag='a'): ...", "annotations"),
        ("from __future__ import annotations\n@define\nclass A: ...", "annotations"),
        ("from __future__ import annotations\n@attrs.frozen()\nclass A: ...", "annotations"),
        ("for x in {1, 2}: ...", "hash order"),
        ("for x in {y for y in z}: ...", "hash order"),
        ("for x in set(y): ...", "hash order"),
        ("for x in frozenset(y): ...", "hash order"),
        ("for x in set(y) - set(z): ...", "hash order"),
        ("for x in a.keys() & b.keys(): ...", "hash order"),
        ("for x in set(y).union(z): ...", "hash order"),
        ("for x in {1} if y else (): ...", "hash order"),
        ("[x for x in set(y)]", "hash order"),
        ("{x: 1 for x in set(y)}", "hash order"),
        ("sum(x for x in set(y))", "hash order"),
        ("tuple(set(y))", "hash order"),
        ("list(enumerate(set(y)))", "hash order"),
        ("','.join(set(y))", "hash order"),
        ("dict.fromkeys(set(y))", "hash order"),
        ("(*set(y),)", "hash order"),
        ("a, b = {1, 2}", "hash order"),
        ("set(y).pop()", "hash order"),
        ("def f():\n    yield from set(y)", "hash order"),
        ("for x in HashTrieMap(y): ...", "hash order"),
        ("for x in rpds.HashTrieSet(y): ...", "hash order"),
        ("for x in HashTrieMap.convert(y).values(): ...", "hash order"),
        ("def f(seen: set[str]):\n    for x in seen: ...", "hash order"),
        ("def f(seen: HashTrieMap[str, int]):\n    return list(seen.items())", "hash order"),
        ("def f(y):\n    seen = set(y)\n    return tuple(seen)", "hash order"),
        ("class A:\n    seen: TextSet\ndef f(a):\n    return tuple(a.seen)", "hash order"),
        ("class A:\n    n: TextMap[int]\ndef f(a):\n    return [*a.n.values()]", "hash order"),
        ("SEEN = frozenset('ab')\ndef f():\n    return [x for x in SEEN]", "hash order"),
    ],
)
def test_a_planted_violation_is_found(source, rule):
    assert rules(check(source)) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "import collections.abc, msgspec.structs",
        "from reducers.vocabulary import items",
        "from . import items",
        "from __future__ import annotations\nclass Plain: ...",
        "def decide(state, input):\n    return input",
        "re.compile('x')",
        "door.open()",
        "for x in sorted({1, 2}): ...",
        "for x in sorted(set(y) - set(z)): ...",
        "sorted(x for x in set(y))",
        "sorted(map(f, set(y)))",
        "{x for x in set(y)}",
        "{*set(y)}",
        "any(x > 1 for x in set(y))",
        "len(set(y))",
        "1 in {1, 2}",
        "set(y) == set(z)",
        "for x in {'a': 1}: ...",
        "for x in a.keys(): ...",
        "for x in a | b: ...",
        "def f(y):\n    seen = set(y)\n    return sorted(seen)",
        "def f(y):\n    seen = set(y)\n    seen = sorted(seen)\n    return list(seen)",
        "class A:\n    seen: TextSet\ndef f(a):\n    return sorted(a.seen)",
        "class A:\n    n: set[int]\nclass B:\n    n: list[int]\ndef f(b):\n    return [*b.n]",
        "def f(seen: set[str]): ...\ndef g(seen):\n    return list(seen)",
    ],
)
def test_what_is_pure_passes(source):
    assert check(source) == []


def test_a_finding_names_its_line():
    assert check("import math\n\nimport time\n") == [Finding(3, "import", "time")]
