"""OpenAI Realtime: the server's conversation is truncated where playback was, not where the wall clock is.

Pipecat truncates at min(wall clock since the first audio, audio received), for the newest item only. That is wrong by
the client's playout delay, by every stall, and by whole items when a reply has several. Here the truncate on its way
out is replaced by what the ledger says. The item being played ends at the played position (never more than was
received: asking for more is refused); an item of which nothing was played is deleted, and so is every later one. Other
events pass unchanged.

The server also says where in the user's audio speech began (`audio_start_ms`, padding included), which is told before
it is heard of: that moment, not the event's arrival, is where the bot was cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pipecat.frames.frames import Frame, TTSAudioRawFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.private_reads import private
from pipecat_voicectx.runtimes.realtime_socket import JsonObject, RawEvent, RealtimeSocket

__all__ = ["RealtimeTruncation"]

# Items remembered; a reply has one or a few.
_MAX_ITEMS = 32
# The API's resolution is a millisecond; what is shorter was not heard.
_MS = 1000
# The API's default.
DEFAULT_PADDING_MS = 300


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
        speech_began: Callable[[float], None] | None = None,
    ) -> None:
        """Initialize and listen at the service's connection.

        Args:
            llm: The service.
            utterance_now: (number, audio samples so far) of the utterance the service is synthesizing.
            played: Seconds played of each utterance at the onset of the user's speech.
            speech_began: Told when the user began to speak, as the server's turn detection found it.
        """
        self._llm = cast(Any, llm)
        self._utterance_now = utterance_now
        self._played = played
        self._speech_began = speech_began
        self._items: deque[_Item] = deque(maxlen=_MAX_ITEMS)
        self._cut: set[str] = set()
        self._padding_ms = DEFAULT_PADDING_MS
        self.rewritten = 0
        self._socket = RealtimeSocket.of(llm)
        self._socket.rewrite("conversation.item.truncate", self._rewrite)
        self._socket.on_event(self._on_event)
        llm.add_event_handler("on_before_push_frame", self._on_frame)

    @staticmethod
    def fits(llm: FrameProcessor) -> bool:
        """Whether `llm` is a service of this kind."""
        return RealtimeSocket.fits(llm)

    async def cut(self) -> None:
        """The turn was cut by other means than a truncate of Pipecat's own: bring the server's items in line."""
        for event in self._events():
            await self._socket.send(event.data)

    async def _on_event(self, event: JsonObject) -> None:
        match event["type"]:
            case "session.created" | "session.updated":
                self._padding_ms = padding_ms_of(event)
            case "input_audio_buffer.speech_started" if self._speech_began is not None:
                onset_secs = self._socket.sent_audio.time_of(
                    (event["audio_start_ms"] + self._padding_ms) / _MS
                )
                if onset_secs is not None:
                    self._speech_began(onset_secs)
            case _:
                pass

    async def _on_frame(self, _llm: FrameProcessor, frame: Frame) -> None:
        if not isinstance(frame, TTSAudioRawFrame):
            return
        current = private(self._llm, "_current_audio_response")
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

    def _rewrite(self, event: Any) -> list[RawEvent] | None:
        if not self._knows(event.item_id):
            return None
        self.rewritten += 1
        return self._events()

    def _knows(self, item_id: str) -> bool:
        return any(item.item_id == item_id for item in self._items)

    def _events(self) -> list[RawEvent]:
        """Truncates and deletes for everything that was received and not played."""
        played = self._played()
        wanted: list[RawEvent] = []
        for item in self._items:
            heard = round(played.get(item.utterance, 0.0) * item.rate_hz) - item.start_samples
            length = item.end_samples - item.start_samples
            if heard >= length or item.item_id in self._cut:
                continue
            self._cut.add(item.item_id)
            heard_ms = max(0, heard) * _MS // item.rate_hz
            event: JsonObject = {"type": "conversation.item.delete", "item_id": item.item_id}
            if heard_ms > 0:
                event = {
                    "type": "conversation.item.truncate",
                    "item_id": item.item_id,
                    "content_index": item.content_index,
                    "audio_end_ms": heard_ms,
                }
            wanted.append(RawEvent(event))
        return wanted


def turn_detection_of(event: JsonObject) -> JsonObject | None:
    """The turn detection of a session as the server reports it; None when it is off or not reported."""
    audio_input = ((event.get("session") or {}).get("audio") or {}).get("input") or {}
    detection: JsonObject | None = audio_input.get("turn_detection")
    return detection


def padding_ms_of(event: JsonObject) -> int:
    """Audio that the server's turn detection puts in front of speech; counted in `audio_start_ms`."""
    padding: int | None = (turn_detection_of(event) or {}).get("prefix_padding_ms")
    return DEFAULT_PADDING_MS if padding is None else padding
