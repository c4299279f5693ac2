"""The package: what adapters call, and what it costs."""

import subprocess
import sys

from wakebus.adapters import markdown


def test_importing_the_adapters_imports_no_parser() -> None:
    """ADP-11.9: nor does the command line; the first text does."""
    script = (
        "import sys; import wakebus.plugin.cli.main\n"
        "from wakebus.adapters import markdown\n"
        "import wakebus.adapters.delivery.deliver, wakebus.adapters.platforms.telegram\n"
        "assert not {'markdown_it', 'mdurl'} & set(sys.modules); markdown.plain('*a*')\n"
        "assert 'markdown_it' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)


def test_the_map_lists_every_module() -> None:
    """The docstring of the package is its map."""
    from pathlib import Path

    assert markdown.__doc__
    assert markdown.__file__
    files = {f.stem for f in Path(markdown.__file__).parent.glob("*.py")} - {"__init__"}
    assert files <= set(markdown.__doc__.split())


def test_size_is_that_of_the_larger() -> None:
    """ADP-11.8: marks that vanish count, and what a mark becomes counts."""
    assert markdown.size("**a**", markdown.plain, 100) == 5
    assert markdown.size("**a**", markdown.telegram_html, 100) == len("<b>a</b>")
    assert markdown.size("中", markdown.plain, 100, lambda text: len(text.encode())) == 3


def test_size_renders_nothing_that_is_too_long_anyway() -> None:
    """ADP-11.8: splitting a long text stays linear."""
    assert markdown.size("a" * 101, lambda text: 1 / 0, 100) == 101  # type: ignore[arg-type,return-value]
