"""
What the model and the person call: tools, and `/bus`.

    bus_tools     what the model calls               schemas       what it is told of them
    bus_read      one of them: inbox and message     slash_command what the person calls: /bus
    broker_calls  the connection of all of them
"""
