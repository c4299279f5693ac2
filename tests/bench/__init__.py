"""
The bench: `make bench`. README.md says how to read it.

    __main__      what is measured, in which order      figures     medians, spreads, tables' cells
    servers       real servers on this machine          board       numbers that processes share
    pace          when the next event goes out          workers     one publisher, one subscriber
    side_*        one system's own client library       bare_proxy  zmq.proxy and nothing else
    events        1→1, 1→10, 10→1, bursts, latency      senders     sends with n in flight
    plan          how long and how often
    acked         receipts, against Redis and NATS      handled     a message from end to end
    standing      start, idle, 1000 clients             report      tables
    start_notify  notify-hermes against `import zmq`    plot        the picture
    hermes_costs  what the plugin costs a Hermes (make bench-hermes-0.22)

Rule 1: all systems are measured in one run, taking turns, so that a busy machine slows all of them;
what counts is the ratio. Rule 2: each system does the same work: the same envelope in the same
JSON, made and read in Python, by the client library that its users take. Rule 3: what is lost,
missing or noisy is said.
"""
