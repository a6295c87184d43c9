"""Callers for `voicectx bench loss` where no recordings are given: eSpeak NG in several voices, speeds and levels.

True start and end are known to the sample. The end-of-turn model was trained on people and judges synthesized voices
badly, so figures on these are for comparison between variants, not with recordings.
"""

from __future__ import annotations

import numpy as np

from pipecat_voicectx.bench.loss_audio import AUDIBLE_SHARE, RATE_HZ, Pcm, Utterance
from pipecat_voicectx.demo.espeak import synthesize

__all__ = ["PAUSED", "PLAIN", "SPEAKERS", "VOICES", "spoken", "synthesized"]

# Accents of eSpeak NG that differ in vowels and rhythm, with its variants that differ in pitch and timbre.
VOICES = (
    "English (America)+f2",
    "English (Great Britain)+m5",
    "English (Scotland)+f4",
    "English (Received Pronunciation)",
    "English (America, New York City)+m3",
    "en-us+f3",
)
SLOWEST_WPM, FASTEST_WPM = 120.0, 230.0
# Peak of full scale: a distant microphone to a close one.
QUIETEST_PEAK, LOUDEST_PEAK = 0.15, 0.7
# What is kept of a voice dying away: 60 ms. Chosen.
TAIL_SAMPLES = 960

# Who calls in the bench of the pause profile.
SPEAKERS = ("quick", "ordinary", "slow", "digits")

PLAIN = (
    "We had booked two rooms with a view of the harbour but on arrival they gave us one without any windows.",
    "My neighbour says that the new bus line will stop right in front of the library from the first of March.",
    "Could you find out which of the three branches still has the grey winter coat in a medium size?",
    "The heating has been making a knocking noise since the technician was here on Wednesday afternoon.",
    "I want to cancel the newspaper while we are away and have it delivered to my brother instead.",
    "Is there a way to move my eye test to the morning because I have to pick the children up at two?",
    "Someone left a black umbrella and a pair of reading glasses on the table by the entrance last night.",
    "Tell me how long the drive to the airport takes if I leave at half past five on a weekday.",
    "The invoice lists four chairs yet only three of them were in the boxes that arrived this morning.",
    "I would rather pay in two instalments and keep the old contract until the end of the summer.",
)
PAUSED = (
    ("I was wondering whether my", "prescription could be sent to the pharmacy near", "the university."),
    (
        "The reference should be on the",
        "second page of the letter just above the",
        "signature of the manager.",
    ),
    ("We need the van for about", "three hours and it should have room for a", "piano and two bicycles."),
    ("Put the meeting with the", "architect on Thursday and leave the", "whole of Friday free, please."),
)


def synthesized(*, seed: int, count: int) -> list[Utterance]:
    """`count` utterances, a quarter of them (ids p*) with pauses inside; the same ones for the same
    seed, but for the flutter of eSpeak's voices.

    Raises:
        UsageError: espeakng-loader is not installed.
    """
    random = np.random.default_rng(seed)
    paused_count = max(1, count // 4)
    plain = [_plain(i, random) for i in range(count - paused_count)]
    return [*plain, *(_paused(i, random) for i in range(paused_count))]


def _plain(number: int, random: np.random.Generator) -> Utterance:
    text, voice = PLAIN[number % len(PLAIN)], VOICES[number % len(VOICES)]
    sound, end = spoken(text, words_per_minute=float(random.uniform(SLOWEST_WPM, FASTEST_WPM)), voice=voice)
    return _utterance(f"s{number}", text, sound, end, random)


def _paused(number: int, random: np.random.Generator) -> Utterance:
    parts, voice = PAUSED[number % len(PAUSED)], VOICES[number % len(VOICES)]
    wpm = float(random.uniform(SLOWEST_WPM, FASTEST_WPM))
    pieces: list[Pcm] = []
    end = 0
    for part in parts:
        sound, length = spoken(part, words_per_minute=wpm, voice=voice)
        end = sum(map(len, pieces)) + length
        pieces += [sound, np.zeros(round(float(random.uniform(0.4, 0.9)) * RATE_HZ), np.int16)]
    return _utterance(f"p{number}", " ".join(parts), np.concatenate(pieces[:-1]), end, random)


def _utterance(name: str, text: str, sound: Pcm, end: int, random: np.random.Generator) -> Utterance:
    peak = float(random.uniform(QUIETEST_PEAK, LOUDEST_PEAK)) * 32767.0
    scaled = sound.astype(np.float64) * peak / max(1.0, float(np.abs(sound.astype(np.int32)).max()))
    return Utterance(
        name=name, text=text, speech_secs=end / RATE_HZ, samples=np.rint(scaled).astype(np.int16)
    )


def spoken(text: str, *, words_per_minute: float, voice: str) -> tuple[Pcm, int]:
    """Speech from its first audible sample on, and where it ends; behind that it still dies away.

    Raises:
        UsageError: espeakng-loader is not installed.
    """
    sound = synthesize(text, words_per_minute=words_per_minute, sample_rate_hz=RATE_HZ, voice=voice).samples
    levels = np.abs(sound.astype(np.int32))
    loud = np.flatnonzero(levels > AUDIBLE_SHARE * levels.max())
    return sound[loud[0] : loud[-1] + TAIL_SAMPLES], int(loud[-1] - loud[0]) + 1
