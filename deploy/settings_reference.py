"""
The tables of broker/SETTINGS.md, made from the settings themselves.

From anywhere: python deploy/settings_reference.py. It replaces what stands between the marks;
the rest of the page is written by hand.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wakebus.adapters.inspect.rate_settings import rate_settings
from wakebus.broker.settings import SettingField, fields

PAGE: Final = Path(__file__).parents[1] / "broker" / "SETTINGS.md"
COMMAND: Final = "python deploy/settings_reference.py"


def page(text: str) -> str:
    """Return the page with its tables made anew."""
    for name, lines in (("broker", _broker()), ("courier", _courier())):
        begin, end = f"<!-- {name}: {COMMAND} -->\n", f"<!-- end of {name} -->\n"
        before, rest = text.split(begin)
        table = "".join(f"{line}\n" for line in lines)
        text = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


def _broker() -> Iterator[str]:
    yield _row("setting", "default", "unit", "at most", "what")
    yield _row("---", "---", "---", "---", "---")
    for field in fields().values():
        most = f"{field.most:,}" if field.most else ""
        yield _row(f"`{field.name}`", _default(field), field.unit, most, field.description)


def _default(field: SettingField) -> str:
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if field.unit == "bytes":
        return f"{int(field.default) >> 20} MiB"
    return f"{field.default:g}"


def _courier() -> Iterator[str]:
    yield _row("setting", "default", "what")
    yield _row("---", "---", "---")
    for rate in rate_settings():
        yield _row(f"`{rate.name}`", rate.default, rate.description)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
