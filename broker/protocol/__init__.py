"""
Values and bytes on which client and server must agree; pure: no socket, no file, no clock.

    message         its fields and limits          wire      a frame as bytes
    delivery_state  states and their steps         outcome   what a handler says of a message
    receipt         what a sender is told          event     an event as a frame
    topics          names of events, and patterns
"""
