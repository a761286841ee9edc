"""Which addresses and names are this machine's own."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

__all__ = ["host_of", "is_loopback"]


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """An address to listen on or to come from, or a name. No name is looked up: whose name server would one trust?"""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    inside = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (inside or address).is_loopback


def host_of(authority: str) -> str:
    """`localhost:8000` -> localhost, `[::1]:8000` -> ::1"""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]
