"""`python -m wakebus.plugin.cli`: `wakebus` of this interpreter, as services call it."""

from wakebus.plugin.cli.main import main

raise SystemExit(main())
