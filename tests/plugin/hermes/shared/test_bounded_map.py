"""What a gateway remembers has a bound."""

from wakebus.plugin.hermes.shared.bounded_map import BoundedMap


def test_the_memory_is_bounded() -> None:
    """HERMES-3.10: what was put first is forgotten first."""
    kept = BoundedMap(2)
    for name in ("a", "b", "a", "c"):
        kept.put(name, name.upper())
    assert [kept.get(name) for name in "abc"] == ["A", None, "C"]
    assert kept.newest_first() == ["C", "A"]
