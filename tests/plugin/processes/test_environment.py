"""What rules' processes find in their environment."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes import environment

MakeMessage = Callable[..., Message]


def test_only_known_names_pass() -> None:
    """RULES-7.2: no credential, unless a rule names it."""
    environ = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "API_KEY": "k",
        "LD_PRELOAD": "x",
        "HERMES_HOME": "h",
    }
    known = {b"PATH": b"/bin", b"LC_TIME": b"C", b"HERMES_HOME": b"h"}
    assert environment.base_environment(environ) == known
    assert environment.base_environment(environ, ["API_KEY", "UNSET"]) == {
        **known,
        b"API_KEY": b"k",
    }


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    """A path in another encoding is still a path."""
    value = b"/home/\xff".decode(errors="surrogateescape")
    assert environment.base_environment({"HOME": value}) == {b"HOME": b"/home/\xff"}


def test_fields(make: MakeMessage) -> None:
    """The seed's names; TS in whole seconds."""
    assert environment.message_fields(make("t", type="ack", channel="c:1")) == {
        "FROM": "alpha",
        "TYPE": "ack",
        "TEXT": "t",
        "CHANNEL": "c:1",
        "TS": "1764288000",
        "ID": "m1",
    }


@given(st.text(st.characters(codec=None)), st.integers(0, 40))
def test_a_cut_never_splits_a_character(text: str, limit: int) -> None:
    """At most `limit` bytes, always UTF-8, the longest that fits."""
    data = environment.cut(text, limit)
    assert len(data) <= limit
    whole = text.encode(errors="replace")
    assert whole.startswith(data) and data.decode() is not None
    assert len(data) > limit - 4 or data == whole


def test_a_value_holds_no_nul() -> None:
    """The kernel would refuse the start."""
    assert environment.encode_values({"TEXT": "a\0b"}) == {b"TEXT": b"ab"}
