"""Peers of these tests meet on 127.0.0.1 only, so that they also pass with the network off."""

from __future__ import annotations

import aioice.ice
import pytest

from pipecat_voicectx.demo.loopback import use_loopback_only


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # Registered with monkeypatch first, so that the original comes back after the test.
    monkeypatch.setattr(aioice.ice, "get_host_addresses", aioice.ice.get_host_addresses)
    use_loopback_only()
