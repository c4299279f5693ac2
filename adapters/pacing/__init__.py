"""
Whether a request may go now; knows no text. Pure, but for the lock and the clock of admission.py.

    admission       each delivery's permit: all below, asked in one order under the lock
    chat_lease      whose a chat is while a text goes out in parts
    circuit_breaker platforms and chats that do not answer
    bulkhead        how many requests are under way to one platform
    cooldowns       what platforms asked for
    rate_limiter    slots by the published limits    rate_buckets    what one limit lets through
    counters        what became of deliveries
"""
