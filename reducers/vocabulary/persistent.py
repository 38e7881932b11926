"""Collections whose old versions stay cheap: a vector, and a set of texts.

The vector is a radix tree of tuples, 32 wide, with its last leaf apart. Appending copies that
leaf, changing a place copies one path, taking a shorter version copies nothing but a leaf.

The set only grows. Its versions share one dictionary, in which each text has its number: a version
holds those below its count. What belongs to it is fixed when it is made, whatever is added later.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")

BITS = 5
WIDTH = 1 << BITS
MASK = WIDTH - 1
GAP_MAX = 1 << 10
"""Places at most that an id may lie behind the next one: who counts leaves no gap at all, and what
was forged shall cost little more than it is long."""

_Node: TypeAlias = tuple[Any, ...]


class Vector(Struct, Generic[T], frozen=True, gc=False, eq=False):
    """An immutable sequence; `Vector.of(values)` makes one.

    `a.extends(b)` is a hint by identity and may miss; never a fact.
    """

    _count: int
    _depth: int
    _root: "_Node"
    """All leaves but the last, each full; itself a leaf at depth 0."""
    _tail: tuple[T, ...]

    @classmethod
    def of(cls, values: Iterable[T]) -> "Vector[T]":
        given = tuple(values)
        border = max(0, len(given) - 1) & ~MASK
        nodes: list[_Node] = [given[start : start + WIDTH] for start in range(0, border, WIDTH)]
        depth = 0
        while len(nodes) > 1:
            nodes = [tuple(nodes[at : at + WIDTH]) for at in range(0, len(nodes), WIDTH)]
            depth += 1
        return cls(len(given), depth, nodes[0] if nodes else (), given[border:])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> T:
        tail = self._tail
        place = index - self._count + len(tail)
        if 0 <= place < len(tail):
            return tail[place]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(index)
        if index >= self._count - len(tail):
            return self[index]
        node = self._root
        for level in range(self._depth, 0, -1):
            node = node[(index >> (BITS * level)) & MASK]
        return node[index & MASK]  # type: ignore[no-any-return]

    def append(self, value: T) -> "Vector[T]":
        tail = self._tail
        if len(tail) < WIDTH:
            # Adding tuples takes half as long as unpacking them.
            return Vector(self._count + 1, self._depth, self._root, tail + (value,))  # noqa: RUF005
        depth, root = _grown(self)
        return Vector(self._count + 1, depth, root, (value,))

    def extend(self, values: Iterable[T]) -> "Vector[T]":
        left = tuple(values)
        tail = self._tail + left
        if len(tail) <= WIDTH:
            return Vector(self._count + len(left), self._depth, self._root, tail)
        border = self._count - len(self._tail)
        grown = Vector(border + WIDTH, self._depth, self._root, tail[:WIDTH])
        for start in range(WIDTH, len(tail), WIDTH):
            depth, root = _grown(grown)
            leaf = tail[start : start + WIDTH]
            grown = Vector(border + start + len(leaf), depth, root, leaf)
        return grown

    def padded(self, count: int, blank: T) -> "Vector[T]":
        """With blanks at its end, `count` values long; the vector itself where it is as long."""
        missing = count - self._count
        return self.extend([blank] * missing) if missing > 0 else self

    def set(self, index: int, value: T) -> "Vector[T]":
        if not 0 <= index < self._count:
            raise IndexError(index)
        border = self._count - len(self._tail)
        if index >= border:
            place = index - border
            tail = (*self._tail[:place], value, *self._tail[place + 1 :])
            return Vector(self._count, self._depth, self._root, tail)
        root = _set(self._root, self._depth, index, value)
        return Vector(self._count, self._depth, root, self._tail)

    def take(self, count: int) -> "Vector[T]":
        """The first `count` values. Later leaves stay reachable until something is appended."""
        if count >= self._count:
            return self
        border = self._count - len(self._tail)
        if count > border:
            return Vector(count, self._depth, self._root, self._tail[: count - border])
        if count <= 0:
            return Vector.of(())
        start = (count - 1) & ~MASK
        leaf = self._leaf(start)
        return Vector(count, self._depth, self._root, leaf[: count - start])

    def slice(self, start: int, stop: int | None = None) -> tuple[T, ...]:
        """Values from `start` up to `stop`, leaf by leaf."""
        stop = self._count if stop is None else min(stop, self._count)
        found: list[T] = []
        place = start
        while place < stop:
            base = place & ~MASK
            leaf = self._leaf(base)
            found.extend(leaf[place - base : stop - base])
            place = base + WIDTH
        return tuple(found)

    def leaves(self) -> Iterator[tuple[T, ...]]:
        for base in range(0, self._count, WIDTH):
            yield self._leaf(base)

    def _leaf(self, base: int) -> tuple[T, ...]:
        border = self._count - len(self._tail)
        if base >= border:
            return self._tail
        node = self._root
        for level in range(self._depth, 0, -1):
            node = node[(base >> (BITS * level)) & MASK]
        return node

    def __iter__(self) -> Iterator[T]:
        for leaf in self.leaves():
            yield from leaf

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector):
            return NotImplemented
        if self is other:
            return True
        return self._count == other._count and all(
            mine is theirs or mine == theirs
            for mine, theirs in zip(self.leaves(), other.leaves(), strict=True)
        )

    def __hash__(self) -> int:
        last = (self._count - 1) & ~MASK
        return hash((self._count, self._leaf(last) if self._count else ()))

    def __repr__(self) -> str:
        return f"Vector({self._count} values)"

    def extends(self, old: "Vector[T]") -> bool:
        """Whether this is `old` with values appended, as far as shared nodes can tell."""
        border = old._count - len(old._tail)
        if old._count > self._count or border > self._count - len(self._tail):
            return False  # the second: a leaf of the old tree may be an abandoned end of this one
        if (
            border
            and self._root is not old._root
            and not _same_edge(self._root, self._depth, old._root, old._depth, border - 1)
        ):
            return False
        if border >= self._count - len(self._tail):
            mine: tuple[T, ...] = self._tail
        else:
            mine = self._leaf(border)
        # Equal will do as well as identical: whatever is drawn from the values is the same then.
        return mine is old._tail or mine[: len(old._tail)] == old._tail


def _grown(vector: Vector[Any]) -> tuple[int, _Node]:
    """Depth and root with the full tail moved into the tree."""
    base = vector._count - WIDTH
    if base == 0:
        return 0, vector._tail
    depth, root = vector._depth, vector._root
    if base == 1 << (BITS * (depth + 1)):
        return depth + 1, (root, _path(depth, vector._tail))
    return depth, _put(root, depth, base, vector._tail)


def _path(depth: int, leaf: _Node) -> _Node:
    for _ in range(depth):
        leaf = (leaf,)
    return leaf


def _put(node: _Node, depth: int, base: int, leaf: _Node) -> _Node:
    """Place a leaf at `base`; whatever stood at or after it (an abandoned end) is dropped."""
    if depth == 0:
        return leaf
    place = (base >> (BITS * depth)) & MASK
    rest = base & ((1 << (BITS * depth)) - 1)
    child = _put(node[place], depth - 1, base, leaf) if rest else _path(depth - 1, leaf)
    return (*node[:place], child)


def _set(node: _Node, depth: int, index: int, value: Any) -> _Node:
    place = (index >> (BITS * depth)) & MASK
    child = _set(node[place], depth - 1, index, value) if depth else value
    return (*node[:place], child, *node[place + 1 :])


def _same_edge(mine: _Node, my_depth: int, old: _Node, old_depth: int, last: int) -> bool:
    """Whether the old tree, whose last leaf holds `last`, is a part of the new one."""
    while my_depth > old_depth:
        mine, my_depth = mine[0], my_depth - 1
    if my_depth < old_depth:
        return False
    while mine is not old:
        if not my_depth:
            return False
        place = (last >> (BITS * my_depth)) & MASK
        if any(a is not b for a, b in zip(mine[:place], old[:place], strict=False)):
            return False
        if place >= len(mine):
            return False
        mine, old, my_depth = mine[place], old[place], my_depth - 1
    return True


class TextSet(Struct, frozen=True, gc=False, eq=False):
    """An immutable set of texts; iterated in the order they were added in.

    Adding to the newest version costs no more than adding to a dictionary, and adding to an older
    one copies it, once.
    """

    _count: int
    _known: dict[str | int, int | str]
    """Of each text its number, and of each number its text."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> "TextSet":
        given = dict.fromkeys(texts)
        known: dict[str | int, int | str] = dict(enumerate(given))
        known.update(zip(given, range(len(given)), strict=True))
        return cls(len(given), known)

    def __contains__(self, text: str) -> bool:
        return self._known.get(text, self._count) < self._count  # type: ignore[operator]

    def insert(self, text: str) -> "TextSet":
        count, known = self._count, self._known
        if text in self:
            return self
        # Who puts down a number first may go on from here: one step, whatever other threads do.
        if not count or known.setdefault(count, text) != text:
            known = TextSet.of(self)._known
            known[count] = text
        known[text] = count
        return TextSet(count + 1, known)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return map(self._known.__getitem__, range(self._count))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextSet):
            return NotImplemented
        return self._count == other._count and all(text in other for text in self)

    def __hash__(self) -> int:
        return hash(self._count)

    def __repr__(self) -> str:
        return f"TextSet({self._count} texts)"


NO_TEXTS = TextSet.of(())
