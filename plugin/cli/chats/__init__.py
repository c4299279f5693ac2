"""Commands about chats: one verb, one file."""
