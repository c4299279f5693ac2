"""
Commands about chats: one verb, one file.

    channels_text  what `channels` prints; no verb   results  what `send` tells of a text; no verb
"""
