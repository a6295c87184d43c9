from __future__ import annotations

import base64
import io
import json
import wave

import pytest

from pipecat_voicectx.projection.costs import estimate_audio_tokens, estimate_message_tokens, estimate_tokens


def test_prose_costs_a_token_and_a_third_per_word() -> None:
    assert estimate_tokens("we would like a quiet room with a view of the sea") == 16
    assert estimate_tokens("") == estimate_tokens("  \n ") == 0
    assert estimate_tokens("hi") == 1


def test_audio_costs_about_ten_tokens_a_second() -> None:
    assert estimate_audio_tokens(60) == 599
    assert estimate_audio_tokens(-1) == 0


def test_chinese_costs_two_and_a_half_times_characters_over_four() -> None:
    text = "我们想要一个安静的房间" * 10
    assert estimate_tokens(text) == pytest.approx(2.5 * len(text) / 4, rel=0.02)


@pytest.mark.parametrize(
    "text", ["โรงแรมที่มีวิวทะเล", "Мы хотим тихий номер", "हमें एक शांत कमरा चाहिए", "静かな部屋をお願いします"]
)
def test_other_scripts_cost_more_than_a_word_count_says(text: str) -> None:
    assert estimate_tokens(text) > 1.33 * len(text.split())


def test_dense_text_without_blanks_is_not_one_word() -> None:
    assert estimate_tokens(json.dumps({"rows": list(range(500))}, separators=(",", ":"))) > 400
    assert estimate_tokens("é" + "x" * 4_500) >= 1_000


def test_a_message_counts_text_tool_calls_and_media() -> None:
    plain = estimate_message_tokens({"role": "user", "content": "two words"})
    assert plain == 4 + 3
    parts = {"role": "user", "content": [{"type": "text", "text": "two words"}]}
    assert estimate_message_tokens(parts) == plain
    call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "book", "arguments": "{}"}}]}
    assert estimate_message_tokens(call) > 10
    second = base64.b64encode(bytes(48_000)).decode()
    audio = {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": second, "format": "wav"}}],
    }
    assert estimate_message_tokens(audio) == pytest.approx(14, abs=1)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:" + "x" * 10_000}}]}
    assert estimate_message_tokens(image) < 500
    assert estimate_message_tokens({"role": "user", "content": [{"type": "new"}, "odd"]}) > 4
    assert estimate_message_tokens(object()) > 4


def test_audio_is_counted_by_the_rate_in_its_own_header() -> None:
    def message(rate_hz: int, secs: float) -> dict[str, object]:
        out = io.BytesIO()
        with wave.open(out, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate_hz)
            file.writeframes(bytes(int(2 * rate_hz * secs)))
        data = base64.b64encode(out.getvalue()).decode()
        return {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}],
        }

    for rate_hz in (8_000, 16_000, 48_000):
        assert estimate_message_tokens(message(rate_hz, 10)) == pytest.approx(99.8 + 4, abs=1)
    # Not base64, or no WAV file: as raw samples at 24 kHz.
    for data in ("%%%", "AAAA" * 16_000):
        part = {"type": "input_audio", "input_audio": {"data": data}}
        expected = 9.98 * len(data) * 0.75 / 48_000
        assert estimate_message_tokens({"role": "user", "content": [part]}) == pytest.approx(
            expected + 4, abs=1
        )


def test_typographic_marks_do_not_change_what_a_text_costs() -> None:
    assert estimate_tokens("It’s “fine” – I think …") == estimate_tokens('It\'s "fine" - I think .')
    assert estimate_tokens("x" * 5_000) == estimate_tokens("y" * 5_000)
