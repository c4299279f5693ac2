"""
One text to one chat, from token to channel result; knows no bus and no other delivery.

    deliver         the way of one message      adapter_calls   an adapter's chat, its calls guarded
    parts           its parts, ways, doubts     platform_client its requests
    retry           the tries and waits         context         transports, caches, permit, record
    split           a text in parts             attachments     the store of files
    access_tokens, chat_lookup, split_cache     caches; single_flight asks for many once
"""
