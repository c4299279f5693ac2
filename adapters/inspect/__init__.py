"""
What people ask beforehand; nothing is sent to a chat.

    describe         what is set up for a platform
    set_up           which platforms a courier can use as it is
    rate_settings    how fast each may be written to, as settings
    proxy_settings   which of the proxies in the settings are none
    dry_run          what a text or a file would become
    credential_check whether the platform takes the credential
    check_all        the same of several platforms at once
"""
