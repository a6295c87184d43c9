from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipecat_voicectx.errors import BadInputError, UnavailableError, UsageError
from pipecat_voicectx.memory.pages import Owner
from pipecat_voicectx.stores.clips import ClipStore, erase_clips, open_clip_store

pytest.importorskip("av", reason="audio clips need PyAV: pip install 'pipecat-voicectx[webrtc]'")


ANN, BEN = Owner(user_id="ann"), Owner(user_id="ben")


def tone(secs: float, *, hertz: float = 440, rate: int = 16_000) -> bytes:
    at_secs = np.arange(int(secs * rate)) / rate
    return (np.sin(2 * np.pi * hertz * at_secs) * 8_000).astype("<i2").tobytes()


def loudest_hertz(pcm: bytes, rate: int) -> float:
    samples = np.frombuffer(pcm, "<i2").astype(float)
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * rate / len(samples))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_clip_comes_back_as_the_sound_it_was_and_much_smaller(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    pcm = tone(2)
    name = clips.add(pcm, sample_rate_hz=16_000, owner=ANN)
    read = clips.read(name)
    assert read is not None
    back, rate = read
    assert len(back) / 2 / rate == pytest.approx(2, abs=0.05)
    assert loudest_hertz(back, rate) == pytest.approx(440, abs=5)
    assert clips.stats().bytes < len(pcm) / 4


def test_a_rate_that_opus_does_not_know_is_resampled(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    read = clips.read(clips.add(tone(1, rate=22_050), sample_rate_hz=22_050, owner=ANN))
    assert read is not None
    assert loudest_hertz(*read) == pytest.approx(440, abs=5)


def test_the_same_audio_is_kept_once(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    assert clips.add(tone(1), sample_rate_hz=16_000, owner=ANN) == clips.add(
        tone(1), sample_rate_hz=16_000, owner=ANN
    )
    assert clips.stats().clips == 1
    clips.add(tone(1), sample_rate_hz=8_000, owner=ANN)
    assert clips.stats().clips == 2


def test_over_the_cap_the_clips_longest_unused_go_first(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path, max_bytes=20_000)
    names = []
    for number in range(8):
        names.append(clips.add(tone(1, hertz=300 + 50 * number), sample_rate_hz=16_000, owner=ANN))
        clips.use(names[0])
    stats = clips.stats()
    assert stats.bytes <= 20_000
    assert stats.evicted > 0
    assert clips.read(names[0]) is not None
    assert clips.read(names[1]) is None
    assert clips.read(names[-1]) is not None


def test_clips_are_there_after_a_restart_and_leftovers_of_a_crash_are_not(tmp_path: Path) -> None:
    name = ClipStore(tmp_path).add(tone(1), sample_rate_hz=16_000, owner=ANN)
    leftover = tmp_path / name[:16] / "half.tmp"
    leftover.write_bytes(b"half a clip")
    clips = ClipStore(tmp_path)
    assert clips.read(name) is not None
    assert not leftover.exists()
    assert clips.stats().clips == 1


def test_a_clip_goes_at_the_age_that_was_promised_also_when_it_was_used_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ClipStore(tmp_path, keep_days=30)
    old, young = (first.add(tone(1, hertz=h), sample_rate_hz=16_000, owner=ANN) for h in (300, 500))
    path = next(path for path in files(tmp_path) if path.stem == old)
    written_secs = time.time() - 31 * 86_400
    os.utime(path, (written_secs, written_secs))
    first.use(old)
    assert first.read(old) is not None
    again = ClipStore(tmp_path, keep_days=30)
    assert again.read(old) is None
    assert again.read(young) is not None
    assert again.stats().expired == 1
    # A bot that runs for weeks looks again while it writes.
    later_secs = time.time() + 31 * 86_400
    monkeypatch.setattr("pipecat_voicectx.stores.clips.time.time", lambda: later_secs)
    again.add(tone(1, hertz=700), sample_rate_hz=16_000, owner=ANN)
    assert again.read(young) is None


def test_a_damaged_clip_is_deleted_and_counted(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    name = clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    (file,) = files(tmp_path)
    for damage in (b"", b"not ogg at all"):
        file.write_bytes(damage)
        assert clips.read(name) is None
        assert not file.exists()
        name = clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    assert clips.stats().damaged == 2


def test_erased_clips_leave_no_file(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    name = clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    assert clips.erase([name, "0" * 40]) == 1
    assert files(tmp_path) == []
    assert clips.read(name) is None


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = ClipStore(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnavailableError, match="No space left"):
        clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    assert files(tmp_path) == []
    assert clips.stats().clips == 0


def test_wrong_input_and_settings_are_refused(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    for pcm in (b"", b"x"):
        with pytest.raises(BadInputError):
            clips.add(pcm, sample_rate_hz=16_000, owner=ANN)
    with pytest.raises(BadInputError):
        clips.read("../../etc/passwd")
    with pytest.raises(UsageError):
        ClipStore(tmp_path, max_bytes=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError):
        ClipStore(tmp_path / "file")


def test_the_same_audio_of_two_owners_is_two_clips_and_one_can_be_erased_whole(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    anns = clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    clips.add(tone(1, hertz=300), sample_rate_hz=16_000, owner=ANN)
    bens = clips.add(tone(1), sample_rate_hz=16_000, owner=BEN)
    assert anns != bens
    assert clips.count(ANN) == 2
    assert clips.erase_owner(ANN) == 2
    assert clips.count(ANN) == 0
    assert clips.read(anns) is None
    assert clips.read(bens) is not None
    assert erase_clips(tmp_path, BEN) == (1, 0)
    assert files(tmp_path) == []


def test_everybody_in_the_process_has_the_same_store_of_a_folder_until_the_last_closes_it(
    tmp_path: Path,
) -> None:
    first, second = open_clip_store(tmp_path), open_clip_store(tmp_path)
    assert first is second
    first.close()
    name = second.submit(lambda clips: clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)).result()
    second.close()
    with pytest.raises(UnavailableError, match="closed"):
        second.submit(lambda clips: None)
    third = open_clip_store(tmp_path)
    assert third is not second
    assert third.read(name, sample_rate_hz=8_000) is not None
    third.close()


def test_a_clip_is_read_at_the_rate_that_is_asked_for(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    read = clips.read(
        clips.add(tone(1, rate=48_000), sample_rate_hz=48_000, owner=ANN), sample_rate_hz=16_000
    )
    assert read is not None
    assert read[1] == 16_000
    assert len(read[0]) == pytest.approx(32_000, rel=0.05)
    assert loudest_hertz(*read) == pytest.approx(440, abs=5)


def test_a_clip_can_become_another_owner_s(tmp_path: Path) -> None:
    clips = ClipStore(tmp_path)
    name = clips.add(tone(1), sample_rate_hz=16_000, owner=ANN)
    given = clips.give(name, BEN)
    assert given is not None
    assert (clips.count(ANN), clips.count(BEN)) == (0, 1)
    assert clips.read(name) is None
    assert clips.read(given) is not None
    assert ClipStore(tmp_path).count(BEN) == 1
    assert clips.give(name, BEN) is None


def test_without_pyav_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UnavailableError, match=r"pip install 'pipecat-voicectx\[webrtc\]'"):
        ClipStore(tmp_path)
