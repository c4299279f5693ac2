"""
Commands about messages, events and endpoints: one verb, one file.

    trace_text       what `trace` and `dead show` print of a message; no verb
    broker_presence  what `listen` and `tail` say when the broker goes; no verb
"""
