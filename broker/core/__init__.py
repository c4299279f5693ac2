"""
What the broker knows and decides; no socket, no file: effects are given in as callables.

    hub            the state: names, connections, bus time     model      what it holds, Effects
    timers         what happens later                          restore    the state, from the store
    mailbox        which message goes out next                 dispatch   out, and how each ends
    mailbox_entry  an open message                             delays     what goes out at a time
    holders        who holds a name, and loses it              ephemeral  names with a suffix
    waiters        who waits for a state or an answer          bounces    what a sender is told
    broker_events  bus.endpoint.*, bus.message.*, bus.probe.*
"""
