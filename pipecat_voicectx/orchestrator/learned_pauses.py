"""What this speaker's pauses ask of the silence that ends a turn: wait longer, or not as long.

Longer is the turn hold's business: it withholds a boundary until the learned silence is there. Shorter is a boundary
of our own, proposed before the strategy's: only when the speaker has shown, over several turns, that they do not pause
that long, and only when the words of the turn are in.

    speech over --learned silence, transcript final--> boundary due

A boundary that came too early teaches too: speech that resumes within a moment, before the bot was heard, belongs to
the turn that was ended. So a silence that is too short corrects itself with the first turn it cuts.
"""

from __future__ import annotations

from pipecat_voicectx.states.pause_profile import PauseProfile, PauseProfileConfig

__all__ = ["LearnedPauses"]

# Speech this soon after a boundary goes on with the turn. Chosen: callers who answer a bot have heard it first.
PREMATURE_SECS = 1.5


class LearnedPauses:
    """Follows one caller's turns. All methods take the present time and must be called in its order."""

    def __init__(self, config: PauseProfileConfig | None = None) -> None:
        self._profile = PauseProfile(config)
        self._speaking_since_secs: float | None = None
        self._speech_ended_secs: float | None = None
        self._spoken_secs = 0.0
        self._turn_over = True
        self._paused = False
        self._words_in = False

    def speech_started(self, *, now_secs: float, doubtful: bool) -> None:
        """Voice activity. `doubtful`: audio is missing in the silence before it, which then teaches nothing."""
        ended_secs, self._speech_ended_secs = self._speech_ended_secs, None
        self._speaking_since_secs, self._words_in = now_secs, False
        if ended_secs is None:
            return
        # Up to when the detector said so: a turn must be waited with for that long.
        pause_secs = now_secs - ended_secs
        if self._turn_over and pause_secs > PREMATURE_SECS:
            return
        if not doubtful:
            self._paused = self._profile.add_pause(pause_secs, now_secs=now_secs) or self._paused

    def speech_stopped(self, *, now_secs: float, stop_secs: float) -> None:
        """Voice activity ended `stop_secs` ago."""
        ended_secs = now_secs - stop_secs
        if self._speaking_since_secs is not None:
            self._spoken_secs += max(0.0, ended_secs - self._speaking_since_secs)
        self._speaking_since_secs, self._speech_ended_secs, self._turn_over = None, ended_secs, False

    def add_text(self, text: str, *, final: bool) -> None:
        """A transcript of the present turn. `final`: the recogniser has nothing more to say about this speech."""
        self._profile.add_text(text)
        self._words_in = self._words_in or final

    def bot_heard(self) -> None:
        """The bot speaks: what the caller says from now on answers it."""
        if self._turn_over:
            self._speech_ended_secs = None

    def turn_over(self, *, now_secs: float) -> None:
        """The turn ended."""
        if not self._paused and not self._turn_over:
            self._profile.add_fluent(self._spoken_secs, now_secs=now_secs)
        self._profile.turn_over()
        self._turn_over, self._paused, self._words_in, self._spoken_secs = True, False, False, 0.0

    def longer_secs(self, *, now_secs: float) -> float | None:
        """Silence that must be there before this speaker's turn ends; None without enough evidence."""
        return self._profile.silence_secs(now_secs=now_secs)

    def due_secs(self, *, now_secs: float) -> float | None:
        """When the turn has ended for this speaker, whatever the strategy still waits for; None: that is not known."""
        if self._turn_over or self._speech_ended_secs is None or not self._words_in:
            return None
        silence_secs = self._profile.enough_secs(now_secs=now_secs)
        return None if silence_secs is None else self._speech_ended_secs + silence_secs
