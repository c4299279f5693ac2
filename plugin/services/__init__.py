"""
Units of a service manager, systemd's or launchd's, which keep wakebus running after a logout.

    unit_files       what they say (pure)
    service_manager  putting them in place, and out of it; asking systemd and launchd
"""
