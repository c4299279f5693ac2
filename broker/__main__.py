from wakebus.broker.server.cli import main

raise SystemExit(main())
