"""
Where values come from, and which of them are secret.

    environment      the process's and $HERMES_HOME/.env   dotenv           how .env is read
    home_channel     what a bare platform means            hermes_config    where Hermes says so
    weixin_accounts  what Hermes knows of Weixin chats     redact           what is never shown
"""
