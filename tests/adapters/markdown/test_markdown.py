"""The package: what adapters call, and what it costs."""

import subprocess
import sys

from wakebus.adapters import markdown as marks


def test_importing_the_adapters_imports_no_parser() -> None:
    """ADP-11.9: nor does the command line; the first text does."""
    script = (
        "import sys; import wakebus.plugin.cli.main\n"
        "from wakebus.adapters import markdown as marks\n"
        "import wakebus.adapters.delivery.deliver, wakebus.adapters.platforms.telegram\n"
        "assert not {'markdown_it', 'mdurl'} & set(sys.modules); marks.plain('*a*')\n"
        "assert 'markdown_it' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)


def test_the_map_lists_every_module() -> None:
    """The docstring of the package is its map."""
    from pathlib import Path

    assert marks.__doc__
    assert marks.__file__
    files = {f.stem for f in Path(marks.__file__).parent.glob("*.py")} - {"__init__"}
    assert files <= set(marks.__doc__.split())


def test_size_is_that_of_the_larger() -> None:
    """ADP-11.8: marks that vanish count, and what a mark becomes counts."""
    assert marks.size("**a**", marks.plain, 100) == 5
    assert marks.size("**a**", marks.telegram_html, 100) == len("<b>a</b>")
    assert marks.size("中", marks.plain, 100, lambda text: len(text.encode())) == 3


def test_size_renders_nothing_that_is_too_long_anyway() -> None:
    """ADP-11.8: splitting a long text stays linear."""
    assert marks.size("a" * 101, lambda text: 1 / 0, 100) == 101  # type: ignore[arg-type,return-value]
