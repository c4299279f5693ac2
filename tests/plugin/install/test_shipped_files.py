"""Which files of ours may be replaced."""

import pytest

from wakebus.plugin.install import shipped_files


@pytest.mark.parametrize("markdown", [False, True])
def test_states(markdown: bool) -> None:
    """What an older version wrote is outdated; what the user touched is changed."""
    new = shipped_files.stamped("a: 1\nb: 2", markdown=markdown)
    old = shipped_files.stamped("a: 1\n", markdown=markdown)
    assert shipped_files.file_state(None, new) == "missing"
    assert shipped_files.file_state(new, new) == "current"
    assert shipped_files.file_state(old, new) == "outdated"
    for changed in (old.replace("1", "2"), old + "c: 3\n", "a: 1\n", "", old.rstrip("\n"), old * 2):
        assert shipped_files.file_state(changed, new) == "changed"


def test_the_stamp_is_a_comment() -> None:
    """In YAML and Python with #, in Markdown out of sight."""
    assert (
        shipped_files.stamped("x", markdown=False)
        .splitlines()[-1]
        .startswith("# shipped with wakebus")
    )
    assert shipped_files.stamped("x", markdown=True).endswith(" -->\n")


def test_what_is_no_text_is_not_ours() -> None:
    """A half character read from a broken file raises nothing."""
    assert not shipped_files.untouched("\udc80\n")
