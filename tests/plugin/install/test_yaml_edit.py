"""The smallest edits: what is not the edit stays byte by byte."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.install import yaml_edit
from wakebus.plugin.install.yaml_edit import CannotEdit

LIST = ("plugins", "enabled")
KEY = ("plugins", "entries", "w", "go")

# text before, text after the word `w` came into plugins.enabled
ADDED = {
    "block": (
        "plugins:\n  enabled:\n    - a # mine\n# c\nx: 1\n",
        "plugins:\n  enabled:\n    - w\n    - a # mine\n# c\nx: 1\n",
    ),
    "block, not indented": (
        "plugins:\n  enabled:\n  - a\n",
        "plugins:\n  enabled:\n  - w\n  - a\n",
    ),
    "flow": ("plugins: {enabled: [a, b]} # c\n", "plugins: {enabled: [w, a, b]} # c\n"),
    "flow, empty": ("plugins:\n  enabled: []\n", "plugins:\n  enabled: [w]\n"),
    "no list": (
        "plugins:\n  # c\n  other: 1\n",
        "plugins:\n  # c\n  enabled:\n    - w\n  other: 1\n",
    ),
    "no list, flow": ("plugins: {other: 1}\n", "plugins: {enabled: [w], other: 1}\n"),
    "empty mapping": ("plugins: {}\nx: 1\n", "plugins: {enabled: [w]}\nx: 1\n"),
    "null list": ("plugins:\n  enabled: # c\nx: 1\n", "plugins:\n  enabled: [w] # c\nx: 1\n"),
    "null word": ("plugins:\n  enabled: ~\n", "plugins:\n  enabled: [w]\n"),
    "null plugins": ("plugins:\nx: 1\n", "plugins: {enabled: [w]}\nx: 1\n"),
    "no plugins": ("x: 1 # c", "x: 1 # c\nplugins:\n  enabled:\n    - w"),
    "nothing": ("", "plugins:\n  enabled:\n    - w\n"),
    "comments only": ("# c\n", "# c\nplugins:\n  enabled:\n    - w\n"),
    "one line": ("{x: 1}\n", "{plugins: {enabled: [w]}, x: 1}\n"),
    "CRLF": (
        "plugins:\r\n  enabled:\r\n  - a\r\n",
        "plugins:\r\n  enabled:\r\n  - w\r\n  - a\r\n",
    ),
}


@pytest.mark.parametrize("case", ADDED)
def test_add_item(case: str) -> None:
    """It comes first, so that comments behind the last one stay where they belong."""
    before, after = ADDED[case]
    assert yaml_edit.add_item(before, LIST, "w") == after
    assert yaml.safe_load(after)["plugins"]["enabled"][0] == "w"


UNDONE = ["block", "block, not indented", "flow", "flow, empty", "empty mapping", "CRLF"]


@pytest.mark.parametrize("case", [*UNDONE, "no plugins", "nothing", "comments only", "one line"])
def test_drop_item_undoes_it(case: str) -> None:
    """What was added and is dropped again leaves no trace."""
    before, after = ADDED[case]
    assert yaml_edit.drop_item(after, LIST, "w") == before


def test_drop_item_in_the_middle_and_at_the_end() -> None:
    """With one comma, and with the item's own line."""
    assert yaml_edit.drop_item("plugins: {enabled: [a, w]}", LIST, "w") == "plugins: {enabled: [a]}"
    assert yaml_edit.drop_item("plugins:\n  enabled:\n  - a\n  - 'w'\n# c\n", LIST, "w") == (
        "plugins:\n  enabled:\n  - a\n# c\n"
    )


def test_put_and_drop_key() -> None:
    """A value is replaced in place; a key takes the mappings with it that it leaves empty."""
    text = "plugins:\n  enabled: [a]\n# end\n"
    on = yaml_edit.put(text, KEY, "true")
    assert yaml.safe_load(on)["plugins"]["entries"] == {"w": {"go": True}}
    assert yaml_edit.put(on, KEY, "false") == on.replace("true", "false")
    assert yaml_edit.drop_key(on, KEY) == text
    beside = "plugins:\n  entries:\n    w:\n      go: true\n      x: 1 # c\n"
    assert yaml_edit.drop_key(beside, KEY) == beside.replace("      go: true\n", "")


def test_what_is_not_understood() -> None:
    """No guess."""
    for text in ("plugins: a text\n", "? plugins\n: {enabled: &a [x]}\n"):
        with pytest.raises(CannotEdit):
            yaml_edit.add_item(text, LIST, "w")
    with pytest.raises(CannotEdit):
        yaml_edit.drop_item("plugins: {enabled: [a]}", LIST, "w")
    with pytest.raises(CannotEdit):
        yaml_edit.drop_key("plugins: 1", KEY)


def test_what_an_edit_leaves_empty() -> None:
    """A flow one stays empty, and so does one with a comment on its line."""
    for text, left in (
        ("plugins:\n  enabled: [w] # c\n", "plugins:\n  enabled: [] # c\n"),
        ("plugins: {enabled: [w]} # c\n", "plugins: {} # c\n"),
        ("plugins: # c\n  enabled:\n  - w\nx: 1\n", "plugins: # c\nx: 1\n"),
        ("plugins:\n  enabled: # c\n  - w\n", "plugins:\n  enabled: # c\n"),
    ):
        assert yaml_edit.drop_item(text, LIST, "w") == left


def test_twice() -> None:
    """The first key on the way that stands twice."""
    assert yaml_edit.find_duplicate_key("a: 1\nplugins: {}\nplugins: {}\n", LIST) == (
        "plugins",
        2,
        3,
    )
    text = "plugins:\n  enabled: []\n  x: 1\n  enabled: []\n"
    assert yaml_edit.find_duplicate_key(text, LIST) == ("enabled", 2, 4)
    assert yaml_edit.find_duplicate_key("x: 1\nx: 2\n", LIST) is None
    assert yaml_edit.find_duplicate_key("", LIST) is None


def test_opened() -> None:
    """The innermost bracket that is open where the text breaks."""
    assert yaml_edit.find_open_bracket("a: [1,\n  {x: 1\n") == 2
    assert yaml_edit.find_open_bracket("a: [1,\n  {x: 1}\n") == 1
    assert yaml_edit.find_open_bracket("a: [1]\nb: \t- x: '\n") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab #:-'\n", max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("ab", min_size=1), below),
    max_leaves=8,
)


@given(VALUES, st.booleans(), st.sampled_from([None, [], ["a"], ["a", "b"]]))
def test_any_layout_keeps_its_meaning(other: object, flow: bool, enabled: object) -> None:
    """Either the edit means what it should, or CannotEdit; other bytes are never lost."""
    data = {"a": other, "plugins": {"enabled": enabled, "z": other}, "zz": other}
    text = yaml.safe_dump(data, default_flow_style=flow or None)
    try:
        edited = yaml_edit.add_item(text, LIST, "w")
    except CannotEdit:
        return
    found = yaml.safe_load(edited)
    assert found["plugins"].pop("enabled") == ["w", *(enabled or [])]  # type: ignore[misc]
    assert found == {**data, "plugins": {"z": other}}
