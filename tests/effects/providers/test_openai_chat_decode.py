"""Chunks into an answer: every dialect of the dialect, and nothing else can happen."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.ports import ProviderFailure, StreamTruncated
from effects.providers.openai_chat import ChatDecoder, decode_body
from effects.providers.openai_chat.decode import parse_chunk
from reducers.vocabulary.content import Text, ToolCall
from reducers.vocabulary.errors import TooLong
from reducers.vocabulary.json import object_problem
from reducers.vocabulary.models import ModelResponse, Usage
from tests.effects.providers.streams import (
    BROKEN,
    FOLDER,
    WHOLE,
    call,
    chunk,
    data_lines,
    decoded,
    streamed,
)


def answer(*chunks, done=True, **options):
    decoder = ChatDecoder(**options)
    for one in chunks:
        decoder.feed(one)
    if done:
        decoder.done()
    return decoder.finish()


def calls(*fragments, finish="tool_calls"):
    """The calls of an answer whose every fragment came in a chunk of its own."""
    response = answer(*(chunk(tool_calls=[one]) for one in fragments), chunk(finish))
    return [(one.id, one.tool, one.args) for one in response.calls]


def said(response):
    return "" if response.content is None else response.content.text


def thought(response):
    return "" if response.reasoning is None else response.reasoning.text


# -- fixtures ------------------------------------------------------------------------------


def test_every_fixture_has_an_expectation():
    assert {path.stem for path in Path(FOLDER).glob("*.sse")} == {*WHOLE, *BROKEN}


@pytest.mark.parametrize("name", WHOLE)
def test_a_stream_is_what_it_says(name):
    response, deltas = decoded(data_lines(name))
    assert response == WHOLE[name]
    assert streamed(deltas, "text") == said(response)
    assert streamed(deltas, "reasoning") == thought(response)
    for index, one in enumerate(response.calls):
        written = streamed(deltas, "tool_args", index)
        assert (written if written.strip() else "{}") == one.args


@pytest.mark.parametrize("name", WHOLE)
def test_cut_after_any_event_before_the_finish_reason_it_is_no_answer(name):
    lines = data_lines(name)
    last = next(n for n, line in enumerate(lines) if '"finish_reason":"' in line)
    for place in range(last):
        with pytest.raises(StreamTruncated):
            decoded(lines[:place])
    assert decoded(lines[: last + 1])[0].stop == WHOLE[name].stop


@pytest.mark.parametrize(("name", "code"), BROKEN.items())
def test_a_broken_stream_fails_with_its_code(name, code):
    with pytest.raises(ProviderFailure) as failure:
        decoded(data_lines(name))
    assert failure.value.code == code


# -- tool calls ----------------------------------------------------------------------------


def test_calls_labelled_alike_are_told_apart_by_their_ids():
    """SA-01."""
    assert calls(call(0, "A", "add", '{"x":1,"y":0}'), call(0, "B", "add", '{"x":2,"y":0}')) == [
        ("A", "add", '{"x":1,"y":0}'),
        ("B", "add", '{"x":2,"y":0}'),
    ]


def test_calls_labelled_alike_may_still_come_in_pieces():
    assert calls(
        call(0, "A", "add", ""),
        call(0, None, None, '{"x":'),
        call(0, None, None, "1}"),
        call(0, "B", "add", ""),
        call(0, None, None, '{"x":'),
        call(0, "A", None, " "),
        call(0, "B", None, "2}"),
    ) == [("A", "add", '{"x":1} '), ("B", "add", '{"x":2}')]


def test_interleaved_fragments_go_where_their_label_says():
    """SA-03, with one call opened by two entries of one chunk."""
    first = chunk(tool_calls=[call(0, "A", "add"), call(0, None, None, '{"x":')])
    response = answer(
        first,
        chunk(tool_calls=[call(1, "B", "add", '{"x":')]),
        chunk(tool_calls=[call(0, None, None, '1,"y":2}')]),
        chunk(tool_calls=[call(1, None, None, '3,"y":4}')]),
        chunk("tool_calls"),
    )
    assert [(one.id, one.args) for one in response.calls] == [
        ("A", '{"x":1,"y":2}'),
        ("B", '{"x":3,"y":4}'),
    ]


@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_a_call_without_arguments_has_an_empty_object(arguments):
    """SA-05; only because the stream ended properly."""
    assert calls(call(0, "n", "now", arguments)) == [("n", "now", "{}")]
    with pytest.raises(StreamTruncated):
        answer(chunk(tool_calls=[call(0, "n", "now", arguments)]), done=False)


@pytest.mark.parametrize(("finish", "stop"), [("tool_calls", "tool_use"), ("length", "length")])
def test_cut_arguments_are_passed_on_as_they_are(finish, stop):
    """SA-07: the core refuses them and tells the model; the reported stop is kept."""
    text = '{"path":"a.txt","text":"lor'
    response = answer(chunk(tool_calls=[call(0, "w", "write", text)]), chunk(finish))
    assert [one.args for one in response.calls] == [text]
    assert response.stop == stop
    assert object_problem(text)


def test_text_that_shows_a_call_is_text():
    """SA-08."""
    text = 'write <tool_call>{"name":"note","arguments":{"text":"x"}}</tool_call>'
    response = answer(chunk(content=text), chunk("stop"))
    assert response == ModelResponse(Text(text))


def test_an_index_is_a_label_and_not_a_place():
    """CH2: one vendor counts from 1; none of the calls is empty."""
    assert calls(call(1, "A", "a", "{}"), call(7, "B", "b", "{}")) == [
        ("A", "a", "{}"),
        ("B", "b", "{}"),
    ]


def test_a_loose_fragment_goes_to_the_call_last_written_to():
    """CH3: the second call was announced, and not begun."""
    assert calls(
        call(None, "A", "a", '{"x":'), call(None, "B", "b", ""), call(None, None, None, "1}")
    ) == [("A", "a", '{"x":1}'), ("B", "b", "{}")]


def test_a_loose_fragment_with_nothing_written_goes_to_the_last_call():
    assert calls(call(None, "A", "a"), call(None, None, None, '{"x":1}')) == [("A", "a", '{"x":1}')]


def test_a_repeated_name_is_not_appended_and_a_name_in_pieces_is():
    """CH4."""
    assert calls(call(0, "A", "add", "{"), call(0, None, "add", "}"), call(0, None, "add", "")) == [
        ("A", "add", "{}")
    ]
    assert calls(call(0, "A", "get_"), call(0, None, "weather"), call(0, None, None, "{}")) == [
        ("A", "get_weather", "{}")
    ]


@pytest.mark.parametrize("label", [None, 0])
@pytest.mark.parametrize("id", [None, "same"])
def test_a_whole_call_behind_a_whole_one_is_another(label, id):
    """CH5; the core gives them ids of their own."""
    one, two = call(label, id, "add", '{"x":1}'), call(label, id, "add", '{"x":2}')
    assert [args for _, _, args in calls(one, two)] == ['{"x":1}', '{"x":2}']
    other = call(label, id, "now", "")
    assert [tool for _, tool, _ in calls(one, other)] == ["add", "now"]


def test_calls_with_one_id_and_labels_of_their_own_stay_apart():
    assert calls(
        call(0, "same", "a", '{"x":'), call(1, "same", "b", '{"y":'),
        call(0, "same", None, "1}"), call(1, "same", None, "2}"),
    ) == [("same", "a", '{"x":1}'), ("same", "b", '{"y":2}')]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"x": 1, "y": "é"}, '{"x":1,"y":"é"}'),
        (None, "{}"),
        (42, "42"),
        (0.5, "0.5"),
        ([1, 2], "[1,2]"),
        (True, "true"),
        (float("inf"), "Infinity"),
        ("[1,2]", "[1,2]"),
        ('{"x":1}{"y":2}', '{"x":1}{"y":2}'),
    ],
)
def test_arguments_of_any_kind_become_text(value, text):
    """CH6: what is no object stays visible, and is refused by the core."""
    entry = call(0, "A", "a")
    entry["function"]["arguments"] = value
    assert calls(entry) == [("A", "a", text)]


@pytest.mark.parametrize("later", ["", None])
def test_an_empty_id_erases_nothing(later):
    """CH7."""
    entry = call(0, None, None, "}")
    assert calls(call(0, "A", "a", "{"), {**entry, "id": later}) == [("A", "a", "{}")]


def test_an_id_invented_for_every_fragment_opens_no_call():
    assert calls(
        call(0, "r1", "a", '{"x":'), call(0, "r2", None, "1}"), call(0, "r3", None, "")
    ) == [("r1", "a", '{"x":1}')]


@pytest.mark.parametrize("id", [None, ""])
def test_a_missing_id_is_left_to_the_core(id):
    """IDS-03."""
    assert calls({**call(0, None, "a", "{}"), "id": id}) == [("", "a", "{}")]


def test_the_first_form_of_calls_is_read():
    response = answer(
        chunk(function_call={"name": "add", "arguments": '{"x":'}),
        chunk(function_call={"arguments": "1}"}),
        chunk("function_call"),
    )
    assert response.calls == (ToolCall("", "add", '{"x":1}'),)
    assert response.stop == "tool_use"


# -- reasoning -----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_either_name(field):
    """CH8."""
    response = answer(chunk(**{field: "hm"}), chunk(**{field: "m"}), chunk("stop", content="ok"))
    assert (thought(response), said(response)) == ("hmm", "ok")


def test_reasoning_under_both_names_is_read_once():
    detail = {"type": "reasoning.text", "text": "hm", "index": 0}
    both = chunk(reasoning="hm", reasoning_content="hm", reasoning_details=[detail])
    assert thought(answer(both, chunk("stop"))) == "hm"


def test_details_are_kept_whole_for_the_way_back():
    """OR1: fragments of one detail are one, and the signature that comes last is on it."""
    pieces = [
        {"type": "reasoning.text", "text": "hm", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "m", "index": 0},
        {"type": "reasoning.text", "signature": "c2ln", "index": 0},
        {"type": "reasoning.encrypted", "data": "AAAA", "index": 1},
        {"type": "reasoning.encrypted", "data": "BBBB", "index": 1},
    ]
    response = answer(*(chunk(reasoning_details=[one]) for one in pieces), chunk("stop"))
    assert thought(response) == "hmm"
    first = {"type": "reasoning.text", "text": "hmm", "index": 0, "format": "f"}
    assert json.loads(response.extra) == {
        "reasoning_details": [{**first, "signature": "c2ln"}, *pieces[3:]]
    }


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize(
    ("text", "thinking", "rest"),
    [
        ("<think>\nhm\n</think>\n\nIt is 4.", "hm\n", "It is 4."),
        ("\n<think>a < b </ c</think>d", "a < b </ c", "d"),
        ("hm, so\n</think>\n\nIt is 4.", "hm, so", "It is 4."),
        ("hm</think>a</think>b", "hm", "a</think>b"),
        ("<thinking about it", "", "<thinking about it"),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("a `</think>` closes the block", "", "a `</think>` closes the block"),
        (" plain", "", " plain"),
        ("  ", "", "  "),
        ("<thi", "", "<thi"),
    ],
)
def test_thinking_in_the_content_is_told_apart(text, thinking, rest, size):
    """CH8: tags may be cut anywhere."""
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    response = answer(*(chunk(content=one) for one in pieces), chunk("stop"))
    assert (thought(response), said(response)) == (thinking, rest)


def test_a_tag_in_the_content_is_text_where_reasoning_has_a_field():
    response = answer(
        chunk(content="\n"), chunk(reasoning="hm"), chunk(content="a</think>b"), chunk("stop")
    )
    assert (thought(response), said(response)) == ("hm", "\na</think>b")


def test_a_tag_in_the_content_is_text_where_nobody_looks():
    text = "<think>a</think>b"
    assert said(answer(chunk(content=text), thinking_in_content=False)) == text


def test_a_finished_summary_on_the_chunk_is_reasoning():
    """CH8: sent twice, kept once; another one follows it."""
    first = {**chunk(), "reasoning_summary": {"content": "one", "status": "complete"}}
    second = {**chunk(), "reasoning_summary": {"content": "two"}}
    assert thought(answer(first, first, second, chunk("stop"))) == "one\n\ntwo"


def test_content_in_typed_parts_is_read():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "ok"},
        {"type": "reference", "reference_ids": [1]},
    ]
    response = answer(chunk(content=parts), chunk("stop"))
    assert (thought(response), said(response)) == ("hm", "ok")


# -- ends, costs, failures -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        (None, "end_turn"),
        ("", "end_turn"),
    ],
)
def test_stops(finish, stop):
    assert answer(chunk(content="x"), chunk(finish)).stop == stop


@pytest.mark.parametrize("finish", ["stop", None])
def test_a_plain_stop_with_calls_is_tool_use(finish):
    assert answer(chunk(finish, tool_calls=[call(0, "A", "a", "{}")])).stop == "tool_use"


def test_the_first_finish_reason_counts():
    assert answer(chunk("length", content="x"), chunk("stop")).stop == "length"


def test_after_the_end_nothing_is_read():
    decoder = ChatDecoder()
    decoder.feed(chunk("stop", content="x"))
    decoder.done()
    assert decoder.feed(chunk(content="y")) == decoder.feed({"error": "late"}) == []
    assert decoder.done() == []
    assert decoder.finish() == decoder.finish() == ModelResponse(Text("x"))


def test_after_an_error_nothing_is_read():
    decoder = ChatDecoder()
    with pytest.raises(ProviderFailure):
        decoder.feed({"error": {"message": "overloaded"}})
    assert decoder.feed(chunk("stop", content="y")) == decoder.done() == []
    with pytest.raises(ProviderFailure, match="overloaded"):
        decoder.finish()


def test_an_interrupted_answer_keeps_its_text_and_no_calls():
    decoder = ChatDecoder()
    decoder.feed(chunk(content="The three", tool_calls=[call(0, "A", "a", "{}")]))
    decoder.feed({"choices": [], "usage": {"prompt_tokens": 3}})
    assert decoder.interrupted() == ModelResponse(Text("The three"), stop="interrupted")


REPORT = {"prompt_tokens": 12, "completion_tokens": 3}


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": [], "usage": None}, chunk(content="hi"), chunk("stop"),
         {"choices": [], "usage": REPORT}],
        [chunk(content="hi"), {**chunk("stop"), "usage": REPORT}],
        [{"choices": [], "usage": REPORT}, chunk(content="hi"), chunk("stop")],
        [chunk(content="hi"), {**chunk("stop"), "x_groq": {"usage": REPORT}}],
        [chunk(content="hi"), {"choices": [{"delta": {}, "finish_reason": "stop",
                                            "usage": REPORT}]}],
    ],
)  # fmt: skip
def test_the_cost_may_ride_on_any_chunk(chunks):
    """SB-03."""
    assert answer(*chunks) == ModelResponse(Text("hi"), usage=Usage(12, 3))


@pytest.mark.parametrize(
    "nothing", [None, {}, {"prompt_tokens": None}, "12", {"prompt_tokens": -1}]
)
def test_a_cost_that_never_comes_is_unknown(nothing):
    """SB-03: unknown, and not 0."""
    assert answer(chunk(content="hi"), {**chunk("stop"), "usage": nothing}).usage is None


@pytest.mark.parametrize(
    ("report", "usage"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 20}, Usage(9, 11, 6)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}, Usage(9, 5)),
        ({"completion_tokens": 5, "total_tokens": 20}, Usage(None, 5)),
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 20,
             "completion_tokens_details": {"reasoning_tokens": 0}},
            Usage(9, 5, 0),
        ),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}},
         Usage(9, cached_input_tokens=8)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 0}, Usage(9, cached_input_tokens=0)),
        ({"prompt_tokens": 9.0, "completion_tokens": True}, Usage(9)),
        ({"prompt_tokens": 10**30}, None),
    ],
)  # fmt: skip
def test_costs(report, usage):
    """CH12."""
    assert answer(chunk("stop", content="x"), {"choices": [], "usage": report}).usage == usage


def test_a_report_that_counts_up_is_not_added_up():
    early = {**chunk(content="x"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    late = {**chunk("stop"), "usage": {"completion_tokens": 2}}
    assert answer(early, late).usage == Usage(9, 2)


def test_only_the_first_choice_counts():
    """CH18."""
    second = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}]}
    both = {"choices": [*second["choices"], *chunk(content="A")["choices"]]}
    assert answer(second, both, chunk("stop")) == ModelResponse(Text("A"))


def test_a_stream_without_an_answer_is_none():
    with pytest.raises(ProviderFailure) as failure:
        answer({"choices": []}, {"choices": [], "usage": REPORT})
    assert failure.value.code == "model.bad_answer"


def test_halves_of_a_character_in_two_chunks_are_joined():
    """SB-01, for servers that count in halves."""
    first, second = "\ud83e", "\udd80"
    response = answer(
        chunk(content="a" + first, tool_calls=[call(0, "A", "f", '{"x":"' + first)]),
        chunk(content=second, tool_calls=[call(0, None, None, second + '"}')]),
        chunk("stop"),
    )
    assert said(response) == "a🦀"
    assert response.calls[0].args == '{"x":"🦀"}'


def test_half_a_character_is_mended():
    """W7: nothing that cannot be encoded enters the record."""
    text = parse_chunk('"a\\ud83eb\\udd80c\\ud83e"')
    response = answer(chunk(content=text), chunk("stop"))
    assert said(response) == "a\ufffdb\ufffdc\ufffd"


def test_half_a_character_in_arguments_is_no_other_character():
    """R17: they run as the model wrote them, or not at all."""
    text = parse_chunk('"{\\"x\\":\\"\\ud83e\\"}"')
    response = answer(chunk(tool_calls=[call(0, "A", "f", text)]), chunk("tool_calls"))
    assert response.calls[0].args == '{"x":"\\ud83e"}'
    assert object_problem(response.calls[0].args) is not None


@pytest.mark.parametrize(
    "line", ["NaN", '{"a":NaN}', "ping", "{", "", '{"a":1} x', "[" * 100_000, "9" * 5000]
)
def test_a_line_that_is_not_json_is_a_failure(line):
    with pytest.raises(ProviderFailure) as failure:
        parse_chunk(line)
    assert failure.value.code == "model.bad_stream"


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_a_chunk_that_is_no_object_is_a_failure(value):
    with pytest.raises(ProviderFailure) as failure:
        ChatDecoder().feed(value)
    assert failure.value.code == "model.bad_stream"


# -- whole bodies --------------------------------------------------------------------------


def body(finish="stop", **message):
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": REPORT}


def test_a_whole_body_is_the_same_answer():
    """CH14."""
    entries = [call(None, "A", "now", ""), call(None, "B", "now", ""), call(None, "B", "b", "{}")]
    response = decode_body(body("tool_calls", content="x", reasoning="hm", tool_calls=entries))
    assert response == ModelResponse(
        Text("x"),
        Text("hm"),
        (ToolCall("A", "now", "{}"), ToolCall("B", "now", "{}"), ToolCall("B", "b", "{}")),
        "tool_use",
        Usage(12, 3),
    )


def test_calls_of_a_whole_body_without_ids_stay_apart():
    entries = [call(None, None, "now", ""), call(None, None, "now", "")]
    assert decode_body(body(tool_calls=entries)).calls == (ToolCall("", "now", "{}"),) * 2


def test_thinking_in_a_whole_body_is_told_apart():
    response = decode_body(body(content="hm</think>ok"))
    assert (thought(response), said(response)) == ("hm", "ok")


def test_details_of_a_whole_body_are_not_glued():
    details = [{"type": "reasoning.text", "text": text} for text in "ab"]
    response = decode_body(body(content="x", reasoning_details=details))
    assert json.loads(response.extra) == {"reasoning_details": details}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"choices": []}, "model.bad_answer"),
        ({"status": "ok"}, "model.bad_answer"),
        ("text", "model.bad_answer"),
        (None, "model.bad_answer"),
        ([], "model.bad_answer"),
        ({"error": {"code": 429, "message": "slow down"}}, "model.rate_limited"),
        ([{"error": {"code": 503, "status": "UNAVAILABLE"}}], "model.overloaded"),
        ({"object": "error", "message": "no", "code": 400}, "model.refused_request"),
        ({"choices": [{"error": {"message": "overloaded"}}]}, "model.overloaded"),
        (body("error", content="half"), "model.failed"),
    ],
)
def test_a_body_that_is_no_answer_is_a_failure(value, code):
    with pytest.raises(ProviderFailure) as failure:
        decode_body(value)
    assert failure.value.code == code


# -- anything at all -----------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["", "stop", "<think>", "</think>", "\ud83e", "{}", '{"x":1}', "error"])
)
names = st.sampled_from(
    """
    choices delta message index finish_reason content tool_calls function_call function id name
    arguments usage prompt_tokens completion_tokens total_tokens prompt_tokens_details
    cached_tokens completion_tokens_details reasoning_tokens reasoning reasoning_content
    reasoning_details reasoning_summary text type thinking refusal error code metadata raw status
    extra_content x_groq object n_prompt_tokens n_ctx
    """.split()
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=25,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 1, "a", None]) | scalars,
        "id": st.sampled_from(["A", "B", "", None]) | scalars,
        "function": anything
        | st.fixed_dictionaries({}, optional={"name": scalars, "arguments": scalars | anything}),
    },
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": scalars | anything,
        "reasoning": scalars,
        "reasoning_details": anything | st.lists(anything, max_size=3),
        "refusal": scalars,
        "tool_calls": st.lists(entries | anything, max_size=3) | anything,
    },
)
chunks = st.fixed_dictionaries(
    {
        "choices": anything
        | st.lists(
            st.fixed_dictionaries(
                {"delta": deltas}, optional={"finish_reason": scalars, "index": scalars}
            ),
            max_size=2,
        )
    },
    optional={"usage": anything, "error": st.none() | anything, "reasoning_summary": anything},
)


def sound(response):
    """What may enter the record: encodable text, everywhere."""
    texts = [response.stop, response.extra, said(response), thought(response)]
    texts += [text for one in response.calls for text in (one.id, one.tool, one.args, one.extra)]
    for text in texts:
        text.encode()
    return True


@given(st.lists(chunks | anything, max_size=6), st.booleans())
def test_decoding_is_total(stream, done):
    decoder = ChatDecoder()
    shown = []
    for one in stream:
        try:
            shown += decoder.feed(one)
        except (ProviderFailure, TooLong):
            break
    if done:
        shown += decoder.done()
    try:
        response = decoder.finish()
    except (ProviderFailure, TooLong) as failure:
        str(failure).encode()
    else:
        assert sound(response)
        if done and "</think>" not in streamed(shown, "text"):
            assert streamed(shown, "text") == said(response)
            assert streamed(shown, "reasoning") == thought(response)
    for one in shown:
        one.text.encode()
    assert decoder.interrupted().calls == ()


@given(anything | chunks)
def test_decoding_a_body_is_total(value):
    try:
        assert sound(decode_body(value))
    except (ProviderFailure, TooLong) as failure:
        str(failure).encode()


@given(st.text(max_size=60) | anything.map(json.dumps))
def test_parsing_a_line_is_total(line):
    try:
        parse_chunk(line)
    except ProviderFailure as failure:
        str(failure).encode()
