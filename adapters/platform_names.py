"""
The names of platforms that are known without loading anything: ours, and Hermes's own.

Rule 1: pure, and nothing but names: every sender loads this file. Rule 2: OURS are this package's
entry points, HERMES is what a gateway of Hermes has without a plugin of others; a test holds each
to its source.
"""

from typing import Final

OURS: Final = frozenset(
    {
        "apprise",
        "console",
        "dingtalk",
        "discord",
        "feishu",
        "matrix",
        "mattermost",
        "ntfy",
        "slack",
        "telegram",
        "webhook",
        "wecom",
        "weixin",
    }
)
# Platform (gateway/config.py, without `local`: a terminal is no chat) and the folders of
# plugins/platforms/ in hermes-agent 0.19.0 and 0.22.2. Other names that 0.22 knows for a folder
# (`teams-platform`) stand in its config.yaml only: no chat has them.
ONLY_HERMES: Final = frozenset(
    {
        "a2a",
        "api_server",
        "bluebubbles",
        "buzz",
        "email",
        "google_chat",
        "homeassistant",
        "irc",
        "line",
        "msgraph_webhook",
        "photon",
        "qqbot",
        "raft",
        "relay",
        "signal",
        "simplex",
        "sms",
        "teams",
        "wecom_callback",
        "whatsapp",
        "whatsapp_cloud",
        "yuanbao",
    }
)
HERMES: Final = ONLY_HERMES | OURS - {"apprise", "console"}
