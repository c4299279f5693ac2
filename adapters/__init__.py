"""
Text to `platform:chat_id`. The contract: ADAPTERS.md.

    errors    what went wrong, by what the caller does      base      what an adapter is
    channel   the reply token, and home channels            registry  adapters, by entry point
    markup    text without control and bidi characters      settings  the environment and .env
    send      one delivery, and its channel result          courier   the service
    parts     its parts, ways, doubts and tokens            split     a text in parts
    retry     how often, how long                           tokens    access tokens, kept
    http      the transport for https                       calls     what an adapter is asked
    mask      requests without secrets                      preview   what would be sent
    console   the platform `console`                        chatlog   its files
"""
