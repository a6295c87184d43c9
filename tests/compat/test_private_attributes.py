"""Private attributes of others that we read, each under a guard: is it still there, and what if it is not.

The first half fails loudly when an upgrade moved one. The second takes them away and looks at what a user would see:
one warning, a part that does less, and a call that goes on.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService
from pipecat_voicectx.playback.heard import HeardTurn
from pipecat_voicectx.private_reads import SWITCH_ENV, has_private, private
from pipecat_voicectx.processors.speech_start import install_candidate_start
from pipecat_voicectx.processors.turn_hold_install import install_turn_hold
from pipecat_voicectx.runtimes.playout_position import SmallWebRTCPosition
from pipecat_voicectx.runtimes.speed import find_speed_actuator
from pipecat_voicectx.sources.daily_stats import DailyStatsSource
from pipecat_voicectx.sources.jitter_buffer import (
    LossTolerantJitterBuffer,
    install_loss_tolerant_jitter_buffer,
)
from pipecat_voicectx.stores.qdrant_engine import vacuum_embedded
from pipecat_voicectx.testing.memory_call import Answers
from pipecat_voicectx.testing.scripted_session import Session, play

PACKAGE = Path(__file__).parents[2] / "pipecat_voicectx"

# (module, class, attribute): what we read, without Python's name mangling.
GUARDED = [
    ("pipecat.processors.aggregators.llm_response_universal", "LLMUserAggregator", "_user_turn_controller"),
    ("pipecat.processors.aggregators.llm_response_universal", "LLMUserAggregator", "_params"),
    ("pipecat.utils.base_object", "BaseObject", "_event_handlers"),
    ("pipecat.utils.base_object", "BaseObject", "_call_event_handler"),
    ("pipecat.services.tts_service", "TTSService", "_settings"),
    ("pipecat.services.openai.base_llm", "BaseOpenAILLMService", "_settings"),
    ("pipecat.services.google.gemini_live.llm", "GeminiLiveLLMService", "_session_resumption_handle"),
    ("pipecat.services.google.gemini_live.llm", "GeminiLiveLLMService", "_connection_task_handler"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_current_audio_response"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_current_assistant_response"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_llm_needs_conversation_setup"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_messages_added_manually"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_send_session_update"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_context"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_websocket"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_connect"),
    ("pipecat.services.openai.realtime.llm", "OpenAIRealtimeLLMService", "_disconnect"),
    ("pipecat.transports.smallwebrtc.transport", "SmallWebRTCOutputTransport", "_client"),
    ("pipecat.transports.smallwebrtc.transport", "SmallWebRTCClient", "_audio_output_track"),
    ("pipecat.transports.smallwebrtc.transport", "SmallWebRTCClient", "_webrtc_connection"),
    ("pipecat.transports.smallwebrtc.transport", "RawAudioTrack", "_timestamp"),
    ("pipecat.transports.smallwebrtc.transport", "RawAudioTrack", "_sample_rate"),
    ("pipecat.transports.daily.transport", "DailyTransport", "_client"),
    ("aiortc", "RTCRtpSender", "__rtp_timestamp"),
    ("aiortc", "RTCRtpReceiver", "__jitter_buffer"),
    ("aiortc.jitterbuffer", "JitterFrame", "data"),
    ("aiortc.jitterbuffer", "JitterBuffer", "_data"),
    ("mem0.vector_stores.qdrant", "Qdrant", "_bm25_encoder"),
    ("qdrant_client", "QdrantClient", "_client"),
    ("qdrant_client.local.qdrant_local", "QdrantLocal", "collections"),
]  # fmt: skip
# Ours, or the language's.
OURS = {"_voicectx_socket", "_concealed_secs", "_origin", "__self__"}


@pytest.mark.parametrize("entry", GUARDED, ids=lambda entry: f"{entry[1]}.{entry[2]}")
def test_what_we_read_is_still_there(entry: tuple[str, str, str]) -> None:
    module_name, class_name, attribute = entry
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # Pipecat raises a bare Exception where an extra is missing
        pytest.skip(f"{module_name} is not installed: {error}")
    found = getattr(module, class_name)
    sources = [inspect.getsource(base) for base in found.__mro__ if base is not object and _readable(base)]
    pattern = re.compile(rf"\b\w+\.{attribute}\b|def {attribute}\b|^    {attribute}\b", re.MULTILINE)
    assert any(pattern.search(source) for source in sources), (
        f"{module_name}.{class_name} has no {attribute} any more: the part that reads it now does less; "
        f"find it with grep -rn {attribute} pipecat_voicectx"
    )


def _readable(base: type) -> bool:
    try:
        inspect.getsource(base)
    except (OSError, TypeError):
        return False
    return True


def test_every_guarded_read_is_in_the_table() -> None:
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] not in ("testing", "bench", "demo"):
            text = path.read_text()
            read |= set(re.findall(r'(?:private|getattr|hasattr)\([^"]*"(_\w+)"', text))
            around = set(re.findall(r'(?:getattr|hasattr)\([^"()]*"(_\w+)"', text)) - OURS
            assert around == set(), f"{path.name} reads {around} around the switch; use private_reads"
    listed = {attribute for _, _, attribute in GUARDED} | OURS
    mangled = {name.replace("_RTCRtpSender", "").replace("_RTCRtpReceiver", "") for name in read}
    assert mangled - listed == set()


def test_with_the_switch_off_a_call_goes_on_and_nothing_private_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH_ENV, "0")
    held: list[object] = []

    async def script(session: Session) -> None:
        assert session.voice is not None

        async def on_heard(_ledger: object, turn: HeardTurn) -> None:
            held.append(turn.heard_text)

        session.voice.add_event_handler("on_heard", on_heard)
        await session.say("what trains are there to ghent")
        await session.answered()

    outcome = play(script, Answers("There is one at nine."), ours=True, tts=EspeakTTSService)
    assert held, "what was heard needs no private attribute"
    assert not [error for error in outcome.log.errors if "embedding" not in error]
    tts = EspeakTTSService(settings=EspeakTTSService.Settings(words_per_minute=170))
    assert private(tts, "_settings") is None
    assert install_turn_hold(bare_pair().user()) is False
    assert not has_private(tts, "_settings")


# -- without them


def bare_pair() -> Any:
    return LLMContextAggregatorPair(LLMContext())


def test_an_aggregator_without_its_controller_holds_no_turn_and_says_so() -> None:
    aggregator = bare_pair().user()
    del aggregator._user_turn_controller
    assert install_turn_hold(aggregator) is False
    assert install_candidate_start(aggregator) is False


def test_an_aggregator_without_its_params_holds_turns_all_the_same() -> None:
    aggregator = bare_pair().user()
    del aggregator._params
    assert install_turn_hold(aggregator) is True


def test_an_output_without_its_track_is_counted_from_its_writes() -> None:
    for output in (
        SimpleNamespace(),
        SimpleNamespace(_client=None),
        SimpleNamespace(_client=SimpleNamespace()),
    ):
        assert not SmallWebRTCPosition.fits(output)  # type: ignore[arg-type]
        position = SmallWebRTCPosition(output)  # type: ignore[arg-type]
        assert position.position_samples() is None
        assert position.rtp_origin() is None
        assert position.epoch == 0


def test_a_receiver_without_its_buffer_keeps_what_it_has() -> None:
    receiver = SimpleNamespace()
    peer = SimpleNamespace(getTransceivers=lambda: [SimpleNamespace(kind="audio", receiver=receiver)])
    assert install_loss_tolerant_jitter_buffer(peer) == 0
    assert vars(receiver) == {}


def test_a_packet_whose_payload_moved_goes_through_aiortc_s_own_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = JitterFrame(data=b"payload", timestamp=1)
    monkeypatch.setattr(JitterBuffer, "add", lambda _buffer, _packet: (False, played))
    packets = [SimpleNamespace(sequence_number=n, timestamp=960 * n) for n in range(9)]
    buffer = LossTolerantJitterBuffer()
    assert [buffer.add(packet) for packet in packets] == [(False, played)] * 9


def test_a_daily_transport_without_its_client_reports_nothing() -> None:
    import asyncio

    source = DailyStatsSource(SimpleNamespace())
    assert asyncio.run(source.read()) is None


def test_a_database_client_that_hides_its_file_is_reported() -> None:
    report = vacuum_embedded(SimpleNamespace(), "c")  # type: ignore[arg-type]
    assert not report.scrubbed
    assert "hides the file" in report.note


def test_a_voice_without_settings_keeps_its_speed() -> None:
    voice = EspeakTTSService()
    actuator = find_speed_actuator(voice)
    assert actuator is not None
    del voice._settings
    assert actuator.words_per_minute is None
