"""
Commands that set wakebus up: one verb, one file.

    settings_model   what `settings` asks; no verb
    install_service  `install service`
"""
