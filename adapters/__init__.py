"""
Text to `platform:chat_id`. The contract: ADAPTERS.md.

    errors    what went wrong, by what the caller does      base      what an adapter is
    channel   the reply token, and home channels            registry  adapters, by entry point
    markup    text without control and bidi characters      settings  the environment and .env
    send      one delivery, and its channel result          courier   the service
    console   the platform `console`                        chatlog   its files
"""
