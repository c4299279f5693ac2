"""Why nothing was installed; `data["step"]` is what to do about it."""

from typing import ClassVar

from wakebus.broker.errors import WakebusError


class CannotInstall(WakebusError):
    """What was changed all the same, the text says. `step`: the next step, for the user."""

    code: ClassVar[str] = "install"

    def __init__(self, text: str, step: str) -> None:
        super().__init__(text, step=step)
