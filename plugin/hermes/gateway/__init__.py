"""
A gateway of Hermes as a host of turns; knows no terminal.

    host              the host that it is             turn           one turn, from place to end
    session_routing   in which session it belongs     conversations  whose a session is
    delivery_tracker  how the core's delivery ended   live_send      prints in a chat
    send_result       what came of a print           turn_end       what is told of a turn
"""
