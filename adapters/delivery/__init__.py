"""One text to one chat, from token to channel result; knows no bus and no other delivery."""
