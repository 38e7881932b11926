"""Contents: their sizes, their text form, and what is left of one that is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reducers.vocabulary.content import (
    Blob,
    Blocks,
    CallBlock,
    Content,
    JsonContent,
    ReasoningBlock,
    Text,
    TextBlock,
    ToolCall,
    as_text,
    blobs_of,
    calls_in,
    content_len,
    content_of,
    truncate,
)
from reducers.vocabulary.json import Json
from reducers.vocabulary.text import byte_len, human_size, mend, mend_bytes
from tests.properties.histories import examples
from tests.properties.strategies import values_of

BLOB = Blob("image/png", "aGVsbG8=", Json('{"name":"a.png"}'))
CALL = ToolCall("c", "add", Json('{"x":1}'))


# -- sizes and texts (kernel.md 1.8) -----------------------------------------------------------


@pytest.mark.accepts(1, 2, 3, 4, 5, 228, 448)
@pytest.mark.parametrize(
    ("content", "size", "text"),
    [
        (Text(), 0, ""),
        (Text("żółw"), 7, "żółw"),
        (JsonContent(Json('{"a":1}')), 7, '{"a":1}'),
        (BLOB, 8 + 9, "[image/png, 8B]"),
        (Blocks(), 0, ""),
        (Blocks((TextBlock(Text("one")),)), 3, "one"),
        (Blocks((TextBlock(Text("one")), TextBlock(Text("two")))), 6, "one\ntwo"),
        (Blocks((ReasoningBlock(Text("hm")), CallBlock(CALL))), 2 + 3 + 7, ""),
        (Blocks((TextBlock(Text("a"), Json('{"s":1}')),)), 1 + 7, "a"),
        (Blocks((TextBlock(BLOB),)), 17, "[image/png, 8B]"),
    ],
)
def test_size_and_text(content, size, text):
    assert content_len(content) == size
    assert as_text(content) == text


@pytest.mark.accepts(447)
@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0B"), (999, "999B"), (1000, "1.00kB"), (292_470, "292.47kB"), (1_500_000, "1.50MB"),
        (2_000_000_000, "2.00GB"), (5_000_000_000_000, "5000.00GB"),
    ],
)  # fmt: skip
def test_sizes_for_people(size, shown):
    assert human_size(size) == shown


@pytest.mark.accepts(241)
def test_blobs_are_found_at_any_depth():
    other = Blob("audio/wav", "eA==")
    blocks = Blocks((TextBlock(BLOB), ReasoningBlock(other), CallBlock(CALL), TextBlock(Text("x"))))
    assert blobs_of(blocks) == (BLOB, other)
    assert blobs_of(BLOB) == (BLOB,)
    assert blobs_of(Text("x")) == ()


def test_where_the_calls_of_a_turn_stand():
    """Blocks win, also where they hold none."""
    assert calls_in(Text("x"), (CALL,)) == (CALL,)
    assert calls_in(Blocks((CallBlock(CALL),)), ()) == (CALL,)
    assert calls_in(Blocks((TextBlock(Text("x")),)), (CALL,)) == ()


def test_what_becomes_a_content():
    assert content_of("x") == Text("x")
    assert content_of(BLOB) is BLOB
    assert content_of({"b": [1, None]}) == JsonContent(Json('{"b":[1,null]}'))
    assert JsonContent(Json('{"n":9007199254740993}')).value == {"n": 9007199254740993}


# -- cutting (kernel.md 2.9) -------------------------------------------------------------------


def cut_plainly(content: Content, limit: int) -> tuple[str, int] | None:
    """The algorithm as the specification tells it, one byte at a time."""
    whole, raw = content_len(content), as_text(content).encode()
    if whole <= limit:
        return None

    def boundary(cut: int) -> int:
        while 0 < cut < len(raw) and raw[cut] & 0xC0 == 0x80:
            cut -= 1
        return cut

    cut = min(limit, len(raw))
    while cut > 0:
        cut = boundary(cut)
        note = f"\n[{whole - cut} bytes cut by an output limit]"
        if cut and cut + len(note) <= limit:
            return raw[:cut].decode() + note, whole - cut
        cut -= 1
    cut = boundary(min(limit, len(raw)))
    return raw[:cut].decode(), whole - cut


@pytest.mark.accepts(7, 8, 9, 12, 451)
@given(values_of(Content) | st.text(max_size=300).map(Text), st.integers(0, 320))
@examples(300)
def test_cutting_is_what_the_specification_tells(content, limit):
    cut = truncate(content, limit)
    expected = cut_plainly(content, limit)
    assert cut == (None if expected is None else (Text(expected[0]), expected[1]))


@pytest.mark.accepts(236)
@given(values_of(Content), st.integers(0, 200))
def test_a_cut_fits_and_says_exactly_what_it_dropped(content, limit):
    cut = truncate(content, limit)
    if cut is None:
        assert content_len(content) <= limit
        return
    text, dropped = cut[0].text, cut[1]
    assert byte_len(text) <= limit
    kept = text.removesuffix(f"\n[{dropped} bytes cut by an output limit]")
    assert byte_len(kept) + dropped == content_len(content)


@pytest.mark.accepts(444)
@pytest.mark.parametrize("limit", [0, 1, 10, 30, 40, 42, 43, 44, 100, 999])
def test_cutting_a_thousand_bytes(limit):
    cut, dropped = truncate(Text("-" * 1000), limit)
    assert len(cut.text) <= limit
    assert cut.text.count("-") + dropped == 1000
    assert f"[{dropped} bytes cut" in cut.text or len(cut.text) == limit


def test_a_limit_below_nothing_is_nothing():
    assert truncate(Text("abc"), -5) == (Text(""), 3)
    assert truncate(Text(""), -5) is None


@pytest.mark.accepts(452)
def test_cutting_never_splits_a_character():
    text, dropped = truncate(Text("każdy" * 50), 21)
    assert (byte_len(text.text), dropped) == (20, 280)
    noted, _ = truncate(Text("każdy" * 50), 64)
    assert "\ufffd" not in noted.text
    assert noted.text.endswith("output limit]")


@pytest.mark.accepts(449)
def test_a_blob_over_a_limit_becomes_its_name():
    cut, dropped = truncate(Blob("image/png", "A" * 5000), 80)
    assert cut.text.startswith("[image/png, 5.00kB]")
    assert cut.text.endswith(f"[{dropped} bytes cut by an output limit]")
    assert byte_len(cut.text) <= 80
    assert dropped > 4900


# -- text at the border ------------------------------------------------------------------------


def test_lone_surrogates_and_bytes_are_mended_and_counted():
    assert mend("a\ud800b\udfff") == ("a\ufffdb\ufffd", 2)
    assert mend("\U0001f600 fine \ufffd") == ("\U0001f600 fine \ufffd", 0)
    assert mend_bytes(b"a\xff\xfeb \xef\xbf\xbd") == ("a\ufffd\ufffdb \ufffd", 2)
    assert mend_bytes("zażółć".encode()) == ("zażółć", 0)


@given(st.text(st.characters(), max_size=9))
def test_what_is_mended_can_be_encoded(text):
    mended, count = mend(text)
    mended.encode()
    assert (mended == text) == (count == 0)
