"""Text and audio of one synthesis unit on one time line: samples from the unit's first audio.

An utterance is what Pipecat calls a TTS context. Three kinds of synthesizer fill it in differently:

- with word times: a text is announced, then its words come with their start times, beside the audio;
- request and response: a text is announced, then all its audio comes, then the text is confirmed;
- streaming without word times: texts are announced and confirmed at once, their audio comes later in one stream.

Which kind it is shows in the order of events, so nothing has to be configured. `pieces` gives the words with their
places, and `spans` the texts with theirs, whichever kind it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipecat_voicectx.playback.alignment import (
    SpeakingPace,
    text_ends,
    text_weight,
    word_ends,
    word_weight,
)
from pipecat_voicectx.playback.pieces import (
    Piece,
    Placement,
    Segment,
    is_sentence,
    rest_of,
    unplaced,
    unspoken,
    with_leads,
)
from pipecat_voicectx.playback.voicing import VoicingTracker

__all__ = ["Piece", "Placement", "Utterance"]

# Word times further than this past the end of their audio are not on our time line (a provider that counts on over a
# re-opened stream): then the audio is aligned instead. Chosen.
_STRAY_MARK_SECS = 0.5


@dataclass(slots=True, kw_only=True)
class Utterance:
    """One synthesis unit while it is made and after. See the module's text for the order of events."""

    context_id: str | None
    """Pipecat's name of it. Several utterances may share one after a stream was re-opened."""
    voicing: VoicingTracker
    """Its audio so far: voiced runs and length."""
    in_context: bool = True
    """Whether its text belongs into the conversation."""
    interruptible: bool = True
    """Whether the user's speech stops it."""
    closed: bool = False
    """Whether no more audio will come."""
    broken_off: bool = False
    """Whether the synthesizer failed in the middle: there is less audio than text."""
    segments: list[Segment] = field(default_factory=list)
    """Texts in order."""
    _changes: int = 0
    """Rises with every change of the texts."""
    _placed: tuple[tuple[int, int, bool, float | None], list[Piece]] | None = None
    """The pieces, and what they were made from: an interruption asks for them several times."""
    _streamed: bool | None = None
    """Whether texts are confirmed before their audio comes. Decided by the first confirmed one."""

    @property
    def audio_samples(self) -> int:
        """Length of the audio so far."""
        return self.voicing.audio_samples

    @property
    def rate_hz(self) -> int:
        """Sample rate of the audio."""
        return self.voicing.rate_hz

    @property
    def whole(self) -> bool:
        """Whether all audio of all texts is there."""
        return self.closed and not self.broken_off

    @property
    def text(self) -> str:
        """Everything given to the synthesizer."""
        return " ".join(segment.text for segment in self.segments)

    def announce(self, segment_id: int | None, text: str, *, has_spacing: bool = False) -> None:
        """A text is about to be synthesized."""
        self._changes += 1
        self.segments.append(
            Segment(
                segment_id=segment_id, text=text, start_samples=self.audio_samples, has_spacing=has_spacing
            )
        )

    def show(self, text: str, *, has_spacing: bool = False) -> None:
        """A text is shown but not spoken, at this place in the order of texts."""
        self._changes += 1
        self.segments.append(
            Segment(
                segment_id=None,
                text=text,
                start_samples=self.audio_samples,
                spoken=False,
                has_spacing=has_spacing,
            )
        )

    def confirm(self, segment_id: int | None, text: str, *, has_spacing: bool = False) -> None:
        """The synthesizer is done with a text, or (streaming) has taken it. Announces the text if nobody did."""
        self._changes += 1
        segment = self._segment(segment_id)
        if segment is None or (segment_id is None and segment.confirmed):
            self._append(text, has_spacing=has_spacing)
            return
        segment.confirmed = True
        segment.text = text
        segment.has_spacing = has_spacing
        if self._streamed is None:
            self._streamed = self.audio_samples == segment.start_samples
        if not self._streamed and not self.broken_off:
            segment.end_samples = self.audio_samples

    def _append(self, text: str, *, has_spacing: bool) -> None:
        """A text that came without an announcement: the next sentence, or (a transcript) the next bit of one."""
        last = self.segments[-1] if self.segments else None
        if (
            last is not None
            and last.spoken
            and last.has_spacing
            and has_spacing
            and not is_sentence(last.text)
        ):
            last.text += text
            return
        self.announce(None, text, has_spacing=has_spacing)
        self.segments[-1].confirmed = True
        self._streamed = True

    def mark_word(
        self, segment_id: int | None, text: str, start_secs: float, *, has_spacing: bool = False
    ) -> None:
        """A word is spoken `start_secs` after the utterance's first audio."""
        self._changes += 1
        segment = self._segment(segment_id)
        if segment is None:
            self.announce(segment_id, "", has_spacing=has_spacing)
            segment = self.segments[-1]
        segment.words.append((text, start_secs, has_spacing))

    def add_pcm(self, pcm: bytes) -> None:
        """The next audio."""
        self.voicing.add_pcm(pcm)

    def break_off(self) -> None:
        """The synthesizer failed: what it was given and did not say stays unsaid."""
        self.broken_off = True
        self._changes += 1

    def close(self, pace: SpeakingPace) -> None:
        """All audio is there. Teaches `pace` what this utterance says about the voice."""
        if self.closed:
            return
        self.closed = True
        self.voicing.finish()
        spoken = [segment for segment in self.segments if segment.spoken]
        if (
            self.whole
            and spoken
            and not any(segment.words or segment.end_samples is not None for segment in spoken)
        ):
            voiced = self.voicing.voiced_between(0, self.audio_samples)
            pace.add(
                weight=sum(text_weight(segment.text) for segment in spoken),
                voiced_secs=voiced / self.rate_hz,
            )

    def learn(self, segment_id: int | None, pace: SpeakingPace) -> None:
        """Teaches `pace` the text just confirmed, if its audio is complete."""
        segment = self._segment(segment_id)
        if segment is not None and segment.end_samples is not None:
            voiced = self.voicing.voiced_between(segment.start_samples, segment.end_samples)
            pace.add(weight=text_weight(segment.text), voiced_secs=voiced / self.rate_hz)

    def pieces(self, pace: SpeakingPace) -> list[Piece]:
        """Every word and unspoken text in order, each with its place. Rests on what is known at this moment."""
        secs_per_weight = pace.secs_per_weight
        known = (self.audio_samples, self._changes, self.closed, secs_per_weight)
        if self._placed is None or self._placed[0] != known:
            pieces = self._marked_pieces(pace) if self._has_word_times else self._aligned_pieces(pace)
            self._placed = (known, pieces)
        return self._placed[1]

    # Pieces from word times

    @property
    def _has_word_times(self) -> bool:
        starts = [start for segment in self.segments for _, start, _ in segment.words]
        if not starts:
            return False
        stray = max(starts) * self.rate_hz > self.audio_samples + _STRAY_MARK_SECS * self.rate_hz
        return not (self.closed and stray)

    def _marked_pieces(self, pace: SpeakingPace) -> list[Piece]:
        starts = [round(start * self.rate_hz) for segment in self.segments for _, start, _ in segment.words]
        pieces: list[Piece] = []
        index = 0
        position = 0
        spaced_before = False
        for number, segment in enumerate(self.segments):
            if not segment.spoken:
                pieces.append(unspoken(segment, number, position, spaced_before))
                spaced_before = segment.has_spacing
                continue
            for text, _, has_spacing in segment.words:
                if self.broken_off and len(text.split()) > 1:
                    # Not a word with a time: what Pipecat puts out for the rest when a synthesizer stops.
                    pieces.extend(
                        unplaced([(" ", word) for word in text.split()], number, self.audio_samples)
                    )
                    index += 1
                    continue
                start = max(position, starts[index])
                following = starts[index + 1] if index + 1 < len(starts) else None
                end = self._marked_end(text, start, following, pace)
                pieces.append(
                    Piece(
                        text=text,
                        start_samples=start,
                        end_samples=end,
                        placement=Placement.WORD_TIME,
                        lead="" if has_spacing and spaced_before else " ",
                        segment=number,
                        begins=self._begins(pieces, start),
                    )
                )
                spaced_before = has_spacing
                position = start
                index += 1
            pieces.extend(unplaced(rest_of(segment), number, self.audio_samples))
        return pieces

    def _begins(self, before: list[Piece], start: int) -> bool:
        """Whether the word at `start` opens a sentence, or goes on after a pause."""
        if not before or is_sentence(before[-1].text):
            return True
        return start - before[-1].end_samples >= self.voicing.pause_secs * self.rate_hz

    def _marked_end(self, text: str, start: int, following: int | None, pace: SpeakingPace) -> int:
        if following is None:
            end = self.voicing.voiced_end_samples
            if not self.whole and pace.secs_per_weight is not None:
                end = min(end, start + round(word_weight(text) * pace.secs_per_weight * self.rate_hz))
        else:
            end = following
        # The pause after a word is not part of it.
        for run_start, run_end in self.voicing.runs:
            if run_start >= end:
                break
            if start < run_end < end:
                end = run_end
                break
        return max(end, start + 1)

    # Pieces from energy and pace

    def _aligned_pieces(self, pace: SpeakingPace) -> list[Piece]:
        pieces: list[Piece] = []
        position = 0
        spaced_before = False
        all_bounds = self._segment_bounds(pace)
        for number, (segment, bounds) in enumerate(zip(self.segments, all_bounds, strict=True)):
            if not segment.spoken:
                pieces.append(unspoken(segment, number, position, spaced_before))
                spaced_before = segment.has_spacing
                continue
            words = with_leads(segment, spaced_before)
            spaced_before = segment.has_spacing
            if bounds is None:
                pieces.extend(unplaced(words, number, self.audio_samples))
                continue
            start, voiced = bounds
            ends = word_ends([word for _, word in words], start, voiced, self.voicing)
            for place, ((lead, word), end) in enumerate(zip(words, ends, strict=True)):
                start_samples = min(self.voicing.next_voiced(position), end)
                pieces.append(
                    Piece(
                        text=word,
                        start_samples=start_samples,
                        end_samples=end,
                        placement=Placement.ALIGNED,
                        lead=lead,
                        segment=number,
                        begins=place == 0 and self.voicing.begins_run(start_samples),
                    )
                )
                position = end
        return pieces

    def _segment_bounds(self, pace: SpeakingPace) -> list[tuple[int, float] | None]:
        """For each segment its start and its voiced samples; None where that is not known."""
        if not self.audio_samples:
            return [None if segment.spoken else (0, 0.0) for segment in self.segments]
        if any(segment.end_samples is not None for segment in self.segments):
            return [self._confirmed_bounds(segment, pace) for segment in self.segments]
        spoken = [segment for segment in self.segments if segment.spoken]
        ends = iter(
            text_ends(
                [text_weight(segment.text) for segment in spoken],
                self.voicing,
                pace=pace.secs_per_weight,
                closed=self.whole,
            )
        )
        bounds: list[tuple[int, float] | None] = []
        position: int | None = 0
        for segment in self.segments:
            if not segment.spoken:
                bounds.append((position or 0, 0.0))
                continue
            end = next(ends)
            if position is None:
                bounds.append(None)
            elif end is None:
                bounds.append(self._open_bounds(segment, position, pace))
            else:
                bounds.append((position, float(self.voicing.voiced_between(position, end))))
            position = end
        return bounds

    def _confirmed_bounds(self, segment: Segment, pace: SpeakingPace) -> tuple[int, float] | None:
        if segment.end_samples is None:
            return self._open_bounds(segment, segment.start_samples, pace)
        voiced = self.voicing.voiced_between(segment.start_samples, segment.end_samples)
        return segment.start_samples, float(voiced)

    def _open_bounds(self, segment: Segment, start: int, pace: SpeakingPace) -> tuple[int, float] | None:
        if pace.secs_per_weight is None or self.audio_samples <= start:
            return None
        return start, text_weight(segment.text) * pace.secs_per_weight * self.rate_hz

    def _segment(self, segment_id: int | None) -> Segment | None:
        if segment_id is None:
            return next((segment for segment in reversed(self.segments) if segment.spoken), None)
        return next((segment for segment in self.segments if segment.segment_id == segment_id), None)
