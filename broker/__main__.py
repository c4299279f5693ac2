from wakebus.broker.busd import main

raise SystemExit(main())
