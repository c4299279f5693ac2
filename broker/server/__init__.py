"""
The process: sockets, signals, children, command line; decides nothing about a message.

    cli           hermes-busd                       process           start, signals, end
    router        the thread of the ROUTER socket   housekeeping      what it does by the clock
    proxy         the topic plane                   supervisor        services in children
    watchdog      the folder while it runs          connection_limit  who gets in
    socket_paths  where the sockets lie             settings_model    the settings, as a schema
    status_page   what `status` prints
"""
