"""The platforms that tests/fakes/platform.py stands in for, one file of rules each."""

from fakes.chats.dingtalk import DingTalk
from fakes.chats.discord import Discord
from fakes.chats.feishu import Feishu
from fakes.chats.matrix import Matrix
from fakes.chats.mattermost import Mattermost
from fakes.chats.ntfy import Ntfy
from fakes.chats.rules import Rules
from fakes.chats.slack import Slack
from fakes.chats.telegram import Telegram
from fakes.chats.webhook import Webhook
from fakes.chats.wecom import WeCom
from fakes.chats.weixin import Weixin

# The order matters only where paths could be read in two ways: ntfy's topics come last.
FAMILIES: tuple[type[Rules], ...] = (
    *(Feishu, DingTalk, WeCom, Weixin, Telegram, Slack, Discord, Mattermost, Matrix, Webhook, Ntfy),
)
