"""
Text to `platform:chat_id`. The contract: ADAPTERS.md.

    errors    what went wrong, by what the caller does      base      what an adapter is
    channel   the reply token, and home channels            registry  adapters, by entry point
    markup    text without control and bidi characters      settings  the environment and .env
    send      one delivery, and its channel result          courier   the service
    handler   one message in the courier's hands            gate      whether it may go out now
    pace      published limits                              circuit   platforms that are down
    buckets   what each of them lets through                crowd     how many are under way at one
    status    what people are shown of the courier          spool     files on their way
    parts     its parts, ways and doubts                    split     a text in parts; splits: kept
    errands   what a delivery asks of a platform            aside     requests beside the message
    lookups   chats by another id, chats that moved         flights   asked once for all, kept
    files     `bus/files`, copies on their way              tools     what a delivery works with
    retry     how often, how long                           tokens    access tokens, kept
    http      the transport for https                       calls     what an adapter is asked
    mask      requests without secrets                      preview   what would be sent
    console   the platform `console`                        chatlog   its files
"""
