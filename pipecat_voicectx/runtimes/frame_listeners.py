"""Listening at another processor's events without paying for the caller's audio.

Pipecat calls the handlers of `on_before_push_frame` and its like for every frame, and a call costs several times what
looking at a frame does. Fifty frames of caller audio a second pass every service of a pipeline, and none of our
listeners there wants them. So they are registered with Pipecat as usual, and where only they would be called, audio
is kept from the call. Handlers of others see every frame as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from pipecat.frames.frames import InputAudioRawFrame, UserAudioRawFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_voicectx.private_reads import private

__all__ = ["FrameListener", "listen", "stop_listening"]

FrameListener: TypeAlias = Callable[[Any, Any], Awaitable[None] | None]

_CALLER_AUDIO = frozenset({InputAudioRawFrame, UserAudioRawFrame})
_ours: WeakKeyDictionary[FrameProcessor, Counter[str]] = WeakKeyDictionary()


def listen(processor: FrameProcessor, event: str, listener: FrameListener) -> None:
    """Has `listener(processor, frame)` called at a synchronous frame event, caller audio left out.

    Args:
        processor: Where to listen.
        event: `on_before_process_frame`, `on_before_push_frame`, or the same with `after`.
        listener: A function or coroutine function. It may be given caller audio all the same, beside other handlers
            or where Pipecat has changed inside.
    """
    processor.add_event_handler(event, listener)
    if processor not in _ours:
        _ours[processor] = Counter()
        _spare_audio(processor, _ours[processor])
    _ours[processor][event] += 1


def stop_listening(processor: FrameProcessor, event: str, listener: FrameListener) -> None:
    """Undoes `listen`."""
    processor.remove_event_handler(event, listener)
    _ours[processor][event] -= 1


def _spare_audio(processor: FrameProcessor, ours: Counter[str]) -> None:
    registry: Any = private(processor, "_event_handlers")
    call: Any = private(processor, "_call_event_handler")
    if not isinstance(registry, dict) or not callable(call):
        return

    async def call_handlers(event: str, *args: Any, **kwargs: Any) -> None:
        found = registry.get(event)
        if found is None or not found.handlers:
            return
        # The type itself: a subclass is somebody's own frame, and what it means is not known here.
        if args and type(args[0]) in _CALLER_AUDIO and len(found.handlers) == ours[event]:
            return
        await call(event, *args, **kwargs)

    vars(processor)["_call_event_handler"] = call_handlers
