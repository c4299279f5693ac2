"""
What several parts of the Hermes side need.

    turn_tracker       which turns are ours        turn_grant      whether we may begin some
    context_injection  what waits, before a turn   safe_chat_text  what Hermes does not act upon
    bounded_map        a map that forgets         host_calls      what only one kind of host has
    prompt_turns       turns in front of a person
"""
