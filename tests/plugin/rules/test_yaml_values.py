"""YAML with lines."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml.nodes import Node

from wakebus.plugin.rules import yaml_values
from wakebus.plugin.rules.yaml_values import Wrong


def _entries(text: str) -> tuple[dict[str, yaml_values.MapEntry], list[Wrong]]:
    found: list[Wrong] = []
    node = yaml_values.parse(text)
    assert node is not None
    return yaml_values.entries(node, "", found.append), found


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a:\n\t- b", 2, "a tab"),
        ("a: [1,\nb: }", 2, ""),
        ("a: 'open", 1, "quoted scalar"),
        ("x: 1\n--- \ny: 1", 2, "single document"),
        ("a: 1\nb: \x07", 2, "U+0007"),
        ("a: *nowhere", 1, "undefined alias"),
        ('a: "\\U99999999"', 0, "not YAML"),
        ("[" * 50_000, 0, "nested too deeply"),
    ],
)
def test_bad_yaml_has_a_line_and_a_reason(text: str, line: int, says: str) -> None:
    """Never a traceback of the parser."""
    with pytest.raises(Wrong) as error:
        yaml_values.parse(text)
    assert error.value.line == line and says in error.value.text


@pytest.mark.parametrize("text", ["", "# only a comment\n", "~", "---\n...\n"])
def test_an_empty_document_is_none(text: str) -> None:
    """Nothing in it is nothing wrong."""
    assert yaml_values.parse(text) is None


def test_a_key_that_stands_twice_is_told_with_both_lines() -> None:
    """YAML libraries take the last silently."""
    entries, found = _entries("a: 1\nb: 2\na: 3")
    assert [(w.line, w.key, w.text) for w in found] == [
        (3, "a", "stands here twice (first on line 1)")
    ]
    assert entries["b"].line == 2


def test_merged_maps() -> None:
    """RULES-1.7: `<<` works, own keys win, of several merged maps the first wins."""
    text = "<<: [{a: 1, b: 1}, {b: 2, c: 2}]\na: own"
    entries, found = _entries(text)
    assert {key: entry.node.value for key, entry in entries.items()} == {
        "a": "own",
        "b": "1",
        "c": "2",
    }
    assert found == []


def test_a_merge_bomb_is_read_in_linear_time() -> None:
    """Thirty levels of ten merges each would be 10^30 maps."""
    lines = ["m0: &m0 {a: 1}"]
    lines += [f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 10)}]}}" for i in range(1, 30)]
    begun = time.process_time()
    entries, _ = _entries("\n".join([*lines, "<<: *m29"]))
    assert entries["a"].node.value == "1"
    assert time.process_time() - begun < 2


def test_a_map_that_merges_itself_ends() -> None:
    """Recursion is data here, not a crash."""
    entries, _ = _entries("&a\n<<: *a\nb: 1")
    assert list(entries) == ["b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("on", "`on` (true or false in YAML) where text belongs; for the text, write 'on'"),
        ("404", "`404` (a number in YAML) where text belongs; for the text, write '404'"),
        ("2026-11-28", "a date"),
        ("[a]", "a list where text belongs"),
        ("{a: b}", "a map where text belongs"),
        ("!!python/name:os.system x", "tag python/name:os.system"),
    ],
)
def test_what_is_no_text_says_how_to_write_it(text: str, says: str) -> None:
    """RULES-1.6: `match_type: on` is a boolean in YAML."""
    node = yaml_values.parse(text)
    assert node is not None
    with pytest.raises(Wrong) as error:
        yaml_values.text(node)
    assert says in error.value.text


def test_values() -> None:
    """Texts, flags, numbers and words."""

    def node(text: str) -> Node:
        found = yaml_values.parse(text)
        assert found is not None
        return found

    assert yaml_values.texts(node("[a, 'on']")) == ("a", "on")
    assert [yaml_values.flag(node(word)) for word in ("true", "off", "Yes")] == [True, False, True]
    assert yaml_values.number(0, 10)(node("2.5")) == 2.5
    assert yaml_values.one_of(("a", "b"))(node("b")) == "b"
    for read, text in [
        (yaml_values.flag, "'true'"),
        (yaml_values.number(0, 10), "11"),
        (yaml_values.number(0, 10), ".inf"),
        (yaml_values.number(0, 10), "1:30"),
        (yaml_values.number(0, 10), "true"),
        (yaml_values.texts, "[]"),
    ]:
        with pytest.raises(Wrong):
            read(node(text))
    with pytest.raises(Wrong, match="did you mean next_turn"):
        yaml_values.one_of(("next_turn", "silent"))(node("nextturn"))


@given(st.text() | st.text(st.sampled_from("ab:-[]{}&*<!|>'\"%#\n\t ,?")))
def test_any_text_parses_or_is_wrong(text: str) -> None:
    """Nothing else is raised."""
    try:
        yaml_values.parse(text)
    except Wrong:
        pass
