"""What text and audio cost in tokens, before anything is sent.

No tokenizer is loaded: an estimate is wanted on every turn, for whatever model serves it. Text with spaces costs 1.33
tokens a word and audio 9.98 tokens a second, both as in the LOV paper; scripts without spaces are counted by the
character, because characters / 4 undercounts Chinese 2.5 times. Text that is no prose (JSON, URLs, base64) has long
"words": it costs at least one token per 4.5 characters.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Mapping
from functools import lru_cache

__all__ = [
    "AUDIO_TOKENS_PER_SEC",
    "TOKENS_PER_WORD",
    "estimate_audio_tokens",
    "estimate_message_tokens",
    "estimate_tokens",
]

# LOV, section 5.1: audio of user and model, and words of transcripts and summaries.
AUDIO_TOKENS_PER_SEC = 9.98
TOKENS_PER_WORD = 1.33
# Field report on long calls: characters / 4 is 2.5 times too low for Chinese. Kana alike, chosen.
_TOKENS_PER_HAN_CHAR = 0.625
# Chosen, on the safe side: Thai, Lao, Khmer and Burmese letters, of which a word has four to six.
_TOKENS_PER_OTHER_UNSPACED_CHAR = 0.5
# Chosen, on the safe side: words outside Latin script are split into more pieces by every common vocabulary.
_TOKENS_PER_NON_LATIN_WORD = 2.2
# Chosen: below the 3.5 characters a token of English prose has, so that it binds for JSON and the like only.
_CHARS_PER_TOKEN_OF_DENSE_TEXT = 4.5
# Chosen: role and separators of one chat message.
_TOKENS_PER_MESSAGE = 4
# Chosen: what providers charge for a small image; only so that an image is not free.
_TOKENS_PER_IMAGE = 255

# Chosen: more characters than any spoken turn has; a pasted megabyte must not cost milliseconds on the response path.
_SAMPLE_CHARS = 20_000

# Chosen: pages and messages are counted again with every turn; longer ones are not worth keeping for that.
_REMEMBERED_CHARS = 1_000
_TYPOGRAPHY = str.maketrans("…’‘“”–—‹›", ".''\"\"--<>")

_HAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_OTHER_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")


def estimate_tokens(text: str) -> int:
    """Tokens of `text`; 0 for blanks alone. A very long text is estimated from its beginning."""
    if len(text) > _SAMPLE_CHARS:
        return round(estimate_tokens(text[:_SAMPLE_CHARS]) * len(text) / _SAMPLE_CHARS)
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _estimate(text)


@lru_cache(maxsize=2_048)
def _remembered(text: str) -> int:
    return _estimate(text)


def _estimate(text: str) -> int:
    if not text.isascii():
        # Typographic marks alone make no foreign script of an English text; the word by word way is slow.
        text = text.translate(_TYPOGRAPHY)
    words = text.split()
    if not words:
        return 0
    if text.isascii():
        dense = len(text) - len(words) + 1
        return max(1, round(max(TOKENS_PER_WORD * len(words), dense / _CHARS_PER_TOKEN_OF_DENSE_TEXT)))
    han, han_count = _HAN.subn(" ", text)
    spaced, other_count = _OTHER_UNSPACED.subn(" ", han)
    tokens = _TOKENS_PER_HAN_CHAR * han_count + _TOKENS_PER_OTHER_UNSPACED_CHAR * other_count
    for word in spaced.split():
        latin = word[0] < "\u0250"
        per_word = TOKENS_PER_WORD if latin else _TOKENS_PER_NON_LATIN_WORD
        tokens += max(per_word, len(word) / _CHARS_PER_TOKEN_OF_DENSE_TEXT)
    return max(1, round(tokens))


def estimate_audio_tokens(secs: float) -> int:
    """Tokens of `secs` seconds of audio."""
    return max(0, round(AUDIO_TOKENS_PER_SEC * secs))


def estimate_message_tokens(message: object) -> int:
    """Tokens of one chat message: its text, tool calls and media. An unknown object counts by its length as text."""
    if type(message) is not dict and not isinstance(message, Mapping):
        return _TOKENS_PER_MESSAGE + estimate_tokens(str(getattr(message, "message", message)))
    tokens = _TOKENS_PER_MESSAGE
    content = message.get("content")
    if isinstance(content, str):
        tokens += estimate_tokens(content)
    elif isinstance(content, list):
        tokens += sum(_part_tokens(part) for part in content)
    calls = message.get("tool_calls")
    if calls:
        tokens += estimate_tokens(json.dumps(calls, ensure_ascii=False, default=str))
    return tokens


def _bytes_per_sec(data: str) -> int:
    """Of a WAV file in base64, from its header; of raw samples what Pipecat's services send, 24 kHz mono."""
    try:
        header = base64.b64decode(data[:60])
        rate = struct.unpack_from("<I", header, 28)[0] if header[:4] == b"RIFF" else 0
    except (ValueError, struct.error):
        rate = 0
    return rate or 2 * 24_000


def _part_tokens(part: object) -> int:
    if not isinstance(part, Mapping):
        return estimate_tokens(str(part))
    if isinstance(part.get("text"), str):
        return estimate_tokens(str(part["text"]))
    audio = part.get("input_audio")
    if isinstance(audio, Mapping):
        data = str(audio.get("data", ""))
        return estimate_audio_tokens(len(data) * 0.75 / _bytes_per_sec(data))
    if part.get("type") == "image_url":
        return _TOKENS_PER_IMAGE
    return estimate_tokens(json.dumps(part, ensure_ascii=False, default=str))
