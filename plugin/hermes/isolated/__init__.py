"""
Hermes from a process in which it runs nothing but plugins: only what it hands to them.

    isolation         whether that is so           process        whose child it is
    isolated_gateway  see host_api/protocol.py     told_by_hooks  what its hooks have told
    stored_sessions   of Hermes's public module
"""
