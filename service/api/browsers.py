"""A service that needs no key must not be driven by a web page: whoever sits at this machine is let in, and so would be
everything that their browser shows."""

from __future__ import annotations

from starlette.datastructures import Headers

from service.errors import ForeignHost, ForeignOrigin
from service.loopback import host_of, is_loopback

__all__ = ["check_host", "check_origin"]

_HARMLESS = ("GET", "HEAD", "OPTIONS")
_OWN_SITE = ("same-origin", "none")  # none: typed by a person


def check_host(headers: Headers) -> None:
    """Against a page whose name leads to this machine all of a sudden (DNS rebinding): for the browser it asks its own
    service, and may read the answer. It cannot claim another name than its own."""
    host = headers.get("host", "")
    if not is_loopback(host_of(host)):
        raise ForeignHost(
            "without keys only localhost and 127.0.0.1 are answered; ask by one of these names, or make a key with: "
            "zstci keys create NAME"
        )


def check_origin(method: str, headers: Headers, allowed: tuple[str, ...]) -> None:
    """Against a form or script of a foreign page. It could not read the answer, but what it asks for would be done."""
    if method in _HARMLESS:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin in allowed:
        return
    foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
    if foreign or (site is not None and site not in _OWN_SITE):
        raise ForeignOrigin("another web page asks for this; name it in ZSTCI_CORS_ORIGINS, or send a key")
