"""Out of a house that has a proxy: a real broker and courier, Hermes's `.env`, real proxies."""

from pathlib import Path

from fakes.desk import Desk
from fakes.proxy import ProxyServer
from fakes.raw_http_server import AUTHORITY, Server, answer

HUSH = "hush-7f3a"
TOOK = b'{"ok": true, "result": {"message_id": 5}}'


def test_b4_proxies_of_hermes_env(tmp_path: Path) -> None:
    """ADP-5.27: by TELEGRAM_PROXY there; a wrong DISCORD_PROXY stops discord only, and is named."""
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    desk, host = Desk(services=True), "api.telegram.org"
    with (
        Server(answer("200 OK", TOOK), tls=True, names=(host,)) as platform,
        ProxyServer("socks5", platform.port) as own,
        ProxyServer("http", platform.port, "me:word") as house,
    ):
        settings = {
            "TELEGRAM_BOT_TOKEN": "123456:AAaaAAaaAAaaAAaaAAaaAAaaAAaaAAaaAAa",
            "DISCORD_BOT_TOKEN": "abcdef",
            "TELEGRAM_PROXY": f"socks5://127.0.0.1:{own.port}",
            "DISCORD_PROXY": f"socks4://me:{HUSH}@10.0.0.1:1080",
            "HTTPS_PROXY": f"http://me:word@127.0.0.1:{house.port}",
            "SSL_CERT_FILE": str(tmp_path / "authority.pem"),
        }

        def write() -> None:
            text = "".join(f"{name}={value}\n" for name, value in settings.items())
            (desk.root / ".env").write_text(text)

        write()
        desk.start()
        try:
            done = desk.wakebus("send", "telegram:1", "hi", "--from", "ci")
            assert done.out == "sent to telegram:1 (id 5)\n", done
            assert (own.asked[0].host, house.asked) == (host, [])
            del settings["TELEGRAM_PROXY"]
            write()  # the next one goes by the house's
            assert desk.wakebus("send", "telegram:1", "hi", "--from", "ci").status == 0
            assert (len(own.asked), house.asked[0].host) == (1, host)
            done = desk.wakebus("send", "discord:1", "hi", "--from", "ci", "--wait", "2")
            assert "DISCORD_PROXY: socks4://***@10.0.0.1:1080 is no proxy" in done.err
            faults = desk.wakebus("settings", "check")
            assert faults.status and ".env:3: DISCORD_PROXY: socks4://***@10.0" in faults.both
            assert HUSH not in done.both + faults.both
            for file in (desk.root / "bus").glob("courier.*"):
                assert HUSH.encode() not in file.read_bytes()
        finally:
            desk.close()
