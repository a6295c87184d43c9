"""Keeps a demo's WebRTC on 127.0.0.1: no other interface is offered, so it works with the network off."""

from __future__ import annotations

import aioice.ice

__all__ = ["use_loopback_only"]


def use_loopback_only() -> None:
    """Has aioice gather the loopback address and nothing else, in this process."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]
