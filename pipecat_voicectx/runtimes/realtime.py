"""OpenAI Realtime: the server's conversation is truncated where playback was, not where the wall clock is.

Pipecat truncates at min(wall clock since the first audio, audio received), for the newest item only. That is wrong by
the client's playout delay, by every stall, and by whole items when a reply has several. Here the public
`send_client_event` is wrapped: the truncate on its way out is replaced by what the ledger says. The item being played
ends at the played position (never more than was received: asking for more is refused, and a refusal ends Pipecat's
session); an item of which nothing was played is deleted, and so is every later one. Other events pass unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from pipecat.frames.frames import Frame, TTSAudioRawFrame
from pipecat.processors.frame_processor import FrameProcessor

__all__ = ["RealtimeTruncation"]

# Items remembered; a reply has one or a few.
_MAX_ITEMS = 32
# The API's resolution is a millisecond; what is shorter was not heard.
_MS = 1000


@dataclass(slots=True)
class _Item:
    """An item of the server's conversation and its stretch of an utterance's audio."""

    item_id: str
    content_index: int
    utterance: int
    start_samples: int
    end_samples: int
    rate_hz: int


class RealtimeTruncation:
    """Rewrites the truncate events of one `OpenAIRealtimeLLMService` (or a subclass)."""

    def __init__(
        self,
        llm: FrameProcessor,
        *,
        utterance_now: Callable[[], tuple[int, int] | None],
        played: Callable[[], dict[int, float]],
    ) -> None:
        """Initialize and wrap `llm.send_client_event`.

        Args:
            llm: The service.
            utterance_now: (number, audio samples so far) of the utterance the service is synthesizing.
            played: Seconds played of each utterance at the onset of the user's speech.
        """
        self._llm = cast(Any, llm)
        self._utterance_now = utterance_now
        self._played = played
        self._items: deque[_Item] = deque(maxlen=_MAX_ITEMS)
        self._cut: set[str] = set()
        self.rewritten = 0
        self._send: Callable[[Any], Awaitable[None]] = self._llm.send_client_event
        self._llm.send_client_event = self._send_client_event
        llm.add_event_handler("on_before_push_frame", self._on_frame)

    @staticmethod
    def fits(llm: FrameProcessor) -> bool:
        """Whether `llm` is a service of this kind."""
        return hasattr(llm, "send_client_event") and hasattr(llm, "_current_audio_response")

    async def cut(self) -> None:
        """The turn was cut by other means than a truncate of Pipecat's own: bring the server's items in line."""
        for event in self._events():
            await self._send(event)

    async def _on_frame(self, _llm: FrameProcessor, frame: Frame) -> None:
        if not isinstance(frame, TTSAudioRawFrame):
            return
        current = getattr(self._llm, "_current_audio_response", None)
        now = self._utterance_now()
        if current is None or now is None:
            return
        number, end = now
        if self._items and self._items[-1].utterance != number:
            self._cut.clear()
            self._items.clear()  # another reply; all items of one share an utterance
        last = self._items[-1] if self._items else None
        if last is not None and last.item_id == current.item_id:
            last.end_samples = end
            return
        self._items.append(
            _Item(
                item_id=current.item_id,
                content_index=current.content_index,
                utterance=number,
                start_samples=end - frame.num_frames,
                end_samples=end,
                rate_hz=frame.sample_rate,
            )
        )

    async def _send_client_event(self, event: Any) -> None:
        if getattr(event, "type", None) != "conversation.item.truncate" or not self._knows(event.item_id):
            await self._send(event)
            return
        self.rewritten += 1
        await self.cut()

    def _knows(self, item_id: str) -> bool:
        return any(item.item_id == item_id for item in self._items)

    def _events(self) -> list[Any]:
        """Truncates and deletes for everything that was received and not played."""
        from pipecat.services.openai.realtime import events

        played = self._played()
        wanted: list[Any] = []
        for item in self._items:
            heard = round(played.get(item.utterance, 0.0) * item.rate_hz) - item.start_samples
            length = item.end_samples - item.start_samples
            if heard >= length or item.item_id in self._cut:
                continue
            self._cut.add(item.item_id)
            heard_ms = max(0, heard) * _MS // item.rate_hz
            if heard_ms > 0:
                wanted.append(
                    events.ConversationItemTruncateEvent(
                        item_id=item.item_id, content_index=item.content_index, audio_end_ms=heard_ms
                    )
                )
            else:
                wanted.append(events.ConversationItemDeleteEvent(item_id=item.item_id))
        return wanted
