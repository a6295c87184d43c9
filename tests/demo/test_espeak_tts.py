from __future__ import annotations

import pytest

pytest.importorskip("espeakng_loader", reason="pip install 'pipecat-voicectx[demo]'")

from pipecat.frames.frames import (
    EndFrame,
    Frame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
    TTSUpdateSettingsFrame,
)
from pipecat.tests.utils import run_test

from pipecat_voicectx.demo.espeak_tts import EspeakTTSService, TextTiming
from pipecat_voicectx.testing import virtual_time

_REPLY = "First there is Ghent by train. Second there is Lyon by train."


def _spoken(tts: EspeakTTSService, *before: Frame) -> list[Frame]:
    async def play() -> list[Frame]:
        down, _ = await run_test(
            tts,
            frames_to_send=[
                *before,
                LLMFullResponseStartFrame(),
                LLMTextFrame(_REPLY),
                LLMFullResponseEndFrame(),
            ],
        )
        return list(down)

    return virtual_time.run(play())


def _audio_secs(frames: list[Frame]) -> float:
    return sum(len(f.audio) / 2 / f.sample_rate for f in frames if isinstance(f, TTSAudioRawFrame))


def test_words_come_one_by_one_with_rising_times_that_fit_the_audio() -> None:
    frames = _spoken(EspeakTTSService())
    words = [f for f in frames if isinstance(f, TTSTextFrame)]
    assert [f.text for f in words] == _REPLY.split()
    times = [f.pts or 0 for f in words]
    assert times == sorted(times)
    assert 0.5 * _audio_secs(frames) < (times[-1] - times[0]) / 1e9 < _audio_secs(frames)


def test_words_of_the_second_sentence_are_timed_from_the_start_of_the_reply() -> None:
    frames = _spoken(EspeakTTSService())
    first_sentence_secs = (_audio_secs(frames)) / 2
    times = {i: f.pts or 0 for i, f in enumerate(f for f in frames if isinstance(f, TTSTextFrame))}
    assert (times[6] - times[0]) / 1e9 == pytest.approx(first_sentence_secs, rel=0.2)


def test_in_sentence_mode_sentences_come_whole_and_untimed() -> None:
    frames = _spoken(EspeakTTSService(text_timing=TextTiming.SENTENCE))
    texts = [f.text for f in frames if isinstance(f, TTSTextFrame)]
    assert texts == ["First there is Ghent by train.", "Second there is Lyon by train."]


def test_a_settings_update_changes_the_speed_of_what_follows() -> None:
    def update(words_per_minute: float) -> TTSUpdateSettingsFrame:
        return TTSUpdateSettingsFrame(delta=EspeakTTSService.Settings(words_per_minute=words_per_minute))

    slow = _audio_secs(_spoken(EspeakTTSService(), update(120)))
    fast = _audio_secs(_spoken(EspeakTTSService(), update(240)))
    assert slow / fast == pytest.approx(2.0, rel=0.1)


def test_listeners_hear_each_synthesis_before_its_audio_leaves() -> None:
    tts = EspeakTTSService()
    heard: list[str] = []
    tts.add_speech_listener(lambda _context, text, _speech: heard.append(text))
    _spoken(tts)
    assert heard == ["First there is Ghent by train.", "Second there is Lyon by train."]


def test_an_unknown_voice_is_an_error_frame_and_no_audio() -> None:
    tts = EspeakTTSService(settings=EspeakTTSService.Settings(voice="no-such-voice"))
    frames = _spoken(tts)
    assert _audio_secs(frames) == 0
    assert not any(isinstance(f, EndFrame) for f in frames)
