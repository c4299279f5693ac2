"""
The courier service: its endpoint, its record on disk, what goes back to the broker.

    service         the endpoint, held and held again   status_file     how it is, for people
    preflight       whether a text can go to a channel: for hosts; channel_check: for senders
    handler         what is decided about one message   lane_backoff    when it comes again
    delivery_log    what was begun and sent; its SQL in …_rows, its file in …_file
    attachment_memory   how many bytes of files at once, and when they go
"""
