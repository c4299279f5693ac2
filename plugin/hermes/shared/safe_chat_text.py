"""
A text made safe for what Hermes does with texts that go into chats: it uploads files they name.

Source: gateway/platforms/base.py of hermes-agent 0.19.0, 3741 extract_media, 3426 extract_images,
3824 extract_local_files. They take `MEDIA:` tags, images by URL, and bare paths with an extension
out of each answer to a person, a command's too; what stands in backquotes they leave, but not
behind `MEDIA:`.

Rule 1: pure. Rule 2: any path with any extension is one: newer versions of Hermes know more of
them. Rule 3: the only backquotes are ours; one in the text would pair with them.
"""

import re
from typing import Final

# As in Hermes, where an extension may be any.
_PATH: Final = re.compile(r"(?<![/:\w.])(?:~/|/|[A-Za-z]:[/\\])(?:[\w.\-]+[/\\])*[\w.\-]+\.\w+\b")
_TAG: Final = re.compile(r"(MEDIA)(?=:)", re.IGNORECASE)
_IMAGE: Final = re.compile(r"(!)(?=\[)|(<)(?=img\b)", re.IGNORECASE)


def without_uploads(text: str) -> str:
    """Return `text` as a chat may have it: paths in backquotes, no tag of a file or an image."""
    text = _TAG.sub(r"\1 ", text.replace("`", "'"))
    text = _IMAGE.sub(lambda found: f"{found[0]} ", text)
    return _PATH.sub(lambda found: f"`{found[0]}`", text)
