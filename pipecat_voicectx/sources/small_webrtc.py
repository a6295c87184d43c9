"""What `NetworkTracker` needs of Pipecat's SmallWebRTC transport, through its public events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loguru import logger

from pipecat_voicectx.sources.aiortc_stats import AiortcStatsSource

if TYPE_CHECKING:
    from pipecat_voicectx.sources.jitter_buffer import AudioHole

__all__ = ["SmallWebRTCLink"]

# Index of the microphone in the transport's track-status messages.
_MICROPHONE = 0


class SmallWebRTCLink:
    """The connection behind a SmallWebRTC transport, as soon as a client is there.

    Keeps the loss-tolerant jitter buffer installed across renegotiations, hears the client's mute, and gives the
    statistics source.
    """

    def __init__(self, transport: Any, *, on_hole_secs: Callable[[float], None]) -> None:
        self._transport = transport
        self._on_hole_secs = on_hole_secs
        self._connection: Any = None
        self._prepared_pc: Any = None
        self._installed = False
        self.muted = False
        self.stats: AiortcStatsSource | None = None
        transport.add_event_handler("on_client_connected", self._connected)

    @classmethod
    def of(cls, transport: Any, *, on_hole_secs: Callable[[float], None]) -> SmallWebRTCLink | None:
        """A link to `transport` when it is a SmallWebRTC transport, else None."""
        try:
            from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport
        except (
            Exception
        ):  # Pipecat raises its own error class for a missing extra; then nobody has such a transport.
            return None
        return (
            cls(transport, on_hole_secs=on_hole_secs) if isinstance(transport, SmallWebRTCTransport) else None
        )

    def watch(self) -> bool:
        """Prepares a new peer connection if there is one. Returns whether our jitter buffer is in place."""
        pc = getattr(self._connection, "pc", None)
        if pc is not None and pc is not self._prepared_pc:
            self._prepared_pc = pc
            # aiortc comes with an extra; here it is certain to be there.
            from pipecat_voicectx.sources.jitter_buffer import install_loss_tolerant_jitter_buffer

            try:
                installed = install_loss_tolerant_jitter_buffer(pc, on_hole=self._hole)
            except (AttributeError, TypeError) as error:
                logger.info("aiortc's jitter buffer stays as it is ({})", type(error).__name__)
                installed = 0
            self._installed = installed > 0
        return self._installed

    def detach(self) -> None:
        """Stops listening to the transport."""
        self._transport.remove_event_handler("on_client_connected", self._connected)
        if self._connection is not None:
            self._connection.remove_event_handler("track-status", self._track_status)

    async def _connected(self, _transport: Any, connection: Any) -> None:
        if not hasattr(connection, "pc"):
            return
        if connection is not self._connection:
            self._connection = connection
            self.stats = AiortcStatsSource(connection)
            connection.add_event_handler("track-status", self._track_status)
        self.watch()

    async def _track_status(self, _connection: Any, receiver_index: int, enabled: bool) -> None:
        if receiver_index == _MICROPHONE:
            self.muted = not enabled

    def _hole(self, hole: AudioHole) -> None:
        self._on_hole_secs(hole.missing_secs)
