"""
What wakebus needs of a live Hermes: no private name of Hermes stands anywhere else.

    protocol          what is needed              choose          the way that is there
    private_gateway   hermes-agent 0.19, by       public_gateway  what newer ones offer to plugins
    private_terminal  looking inside              loop_calls      calls on Hermes's event loop
    served_profiles   whose part of a gateway     profile_part    what of it is that profile's
    private_tui       the Ink TUI and the desktop of 0.22
    adapter_limits    what adapters do with a     heard_log       what one logs while it sends
                      text beside posting it
    session_state     what goes on in a session   answer_filter   what no chat is to see
    loaded_functions  of any kind of process
"""
