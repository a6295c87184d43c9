"""Replays a recorded session through fresh pure cores and compares what they decide with what was decided.

Pure: no pipeline, no clock, no audio. The recorded calls carry their times, so an hour replays in seconds. Use it to
see which decisions a changed core or a changed configuration would have made on a real call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast, get_type_hints

from pipecat_voicectx.errors import BadInputError, VoiceContextError
from pipecat_voicectx.observers.codec import Json, TypeHint, decode, encode
from pipecat_voicectx.observers.core_taps import CORES, NOT_KEPT, parameters_of
from pipecat_voicectx.observers.events import EventKind, typed_value
from pipecat_voicectx.orchestrator.deferral import Continuation, Deferral, DeferralConfig, longer_silence_ms
from pipecat_voicectx.orchestrator.directives import Directive, DirectiveOrigin, SetVadSilenceDuration
from pipecat_voicectx.orchestrator.functions import ALL_FUNCTIONS, CallError, RejectedCall, parse_call
from pipecat_voicectx.orchestrator.turn_hold import TurnHeld, TurnHold, TurnHoldConfig, TurnReleased
from pipecat_voicectx.states.network import NetworkConfig, NetworkEstimator, NetworkState
from pipecat_voicectx.states.speaking_rate import SpeakingRateEstimator
from pipecat_voicectx.states.utterances import UtteranceJoiner

__all__ = ["Difference", "ReplayResult", "replay"]

_OUR_FUNCTIONS = frozenset(spec.name for spec in ALL_FUNCTIONS)
# Chosen: enough to see what kind of difference it is.
_MOST_DIFFERENCES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A recorded decision that a fresh core does not repeat."""

    at_secs: float
    where: str
    """`turn_hold.wake`, `directive`."""
    recorded: Json
    replayed: Json


@dataclass(slots=True, kw_only=True)
class ReplayResult:
    """What came out."""

    directives: list[Directive] = field(default_factory=list)
    """As the cores made them, in order."""
    holds: list[TurnHeld | TurnReleased] = field(default_factory=list)
    calls: int = 0
    """Calls to cores that were repeated."""
    answers: int = 0
    """Answers that were compared."""
    differences: list[Difference] = field(default_factory=list)
    """The first fifty."""
    different: int = 0
    unread: int = 0
    """Lines or calls that could not be read."""

    @property
    def same(self) -> bool:
        """Whether every recorded decision was made again, and something was compared."""
        return self.different == 0 and self.unread == 0


def replay(lines: Iterable[Mapping[str, Json]]) -> ReplayResult:
    """Repeats the recorded calls of `read_session`'s lines on fresh cores.

    The recorded configurations are used. A file without core calls only has the model's function calls replayed.
    """
    session = _Replay()
    for line in lines:
        try:
            session.take(line)
        except BadInputError:
            session.result.unread += 1
    return session.result


class _Replay:
    def __init__(self) -> None:
        self.result = ReplayResult()
        self._cores: dict[str, object] = {}
        self._states: deque[NetworkState] = deque(maxlen=8)
        self._estimators: dict[str, SpeakingRateEstimator] = {}
        self._called: list[Directive | RejectedCall] = []
        self._continuations: list[int] = []
        self._gap: tuple[float, float] | None = None
        self._deferral_config = DeferralConfig()

    def take(self, line: Mapping[str, Json]) -> None:
        kind = cast(EventKind, decode(EventKind, line.get("k")))
        at_secs = cast(float, decode(float, line.get("at")))
        value = line.get("v")
        if kind is EventKind.CALLS:
            for row in value if isinstance(value, list) else ():
                self._call(at_secs, row)
        elif kind is EventKind.CALL and isinstance(value, dict) and value.get("name") in _OUR_FUNCTIONS:
            self._called.append(parse_call(str(value["name"]), value.get("arguments")))
            del self._called[:-64]
        elif kind is EventKind.DIRECTIVE:
            self._directive(at_secs, cast(Directive, typed_value(kind, value)), value)
        elif kind is EventKind.NETWORK and "network" in self._cores:
            self._network(at_secs, value)
        elif kind is EventKind.SPEAKING_RATE:
            estimator = self._estimators.get("speaking_rate")
            if estimator is not None:
                self._compare(at_secs, "speaking_rate", value, estimator.state)
        elif kind is EventKind.REJECTED:
            self._rejected(at_secs, cast(RejectedCall, typed_value(kind, value)), value)

    # The cores

    def _call(self, at_secs: float, row: Json) -> None:
        if not isinstance(row, list) or len(row) < 4:
            raise BadInputError("recorded call is no list of core, method, arguments and answer")
        label, method, arguments, answer = str(row[0]), str(row[1]), row[2], row[3]
        name = label.partition("#")[0]
        if name not in CORES:
            raise BadInputError(f"recorded core {name!r} is unknown")
        if method == "":
            self._cores[label] = self._fresh(name, row[4] if len(row) > 4 else None)
            return
        core = self._cores.get(label)
        if core is None or method not in CORES[name].methods:
            raise BadInputError(f"recorded call of {label}.{method} has no core")
        given = _arguments(core, method, arguments)
        try:
            replayed = getattr(core, method)(**given)
        except (VoiceContextError, ArithmeticError, TypeError, ValueError) as error:
            # A call that raised is not recorded: this one did not, then.
            self._differs(at_secs, f"{label}.{method}", answer, f"raised {type(error).__name__}")
            return
        self.result.calls += 1
        if answer != NOT_KEPT:
            self._compare(at_secs, f"{label}.{method}", answer, replayed)
        if isinstance(replayed, NetworkState):
            self._states.append(replayed)
        if isinstance(replayed, (TurnHeld, TurnReleased)):
            self.result.holds.append(replayed)
        if isinstance(core, Deferral) and method == "speech_started":
            self._gap = (cast(float, given["gap_secs"]), cast(float, given["vad_silence_ms"]))
            if isinstance(replayed, Continuation):
                self._continuations.append(replayed.silence_ms)

    def _network(self, at_secs: float, recorded: Json) -> None:
        """A published state is one of the last that the core was asked for; its event comes a moment later."""
        plain = [encode(state) for state in self._states]
        latest = plain[-1] if plain else None
        repeated = any(_repeats(recorded, state) for state in plain)
        self._compare(at_secs, "network", recorded, recorded if repeated else latest)

    def _fresh(self, name: str, config: Json) -> object:
        match name:
            case "turn_hold":
                return TurnHold(cast(TurnHoldConfig, decode(TurnHoldConfig, config)))
            case "deferral":
                self._deferral_config = cast(DeferralConfig, decode(DeferralConfig, config))
                return Deferral(self._deferral_config)
            case "network":
                return NetworkEstimator(cast(NetworkConfig, decode(NetworkConfig, config)))
            case _:
                settings = config if isinstance(config, dict) else {}
                window, language = settings.get("window"), settings.get("default_language")
                estimator = SpeakingRateEstimator(window=window if isinstance(window, int) else 10)
                self._estimators[name] = estimator
                return UtteranceJoiner(
                    estimator, default_language=language if isinstance(language, str) else None
                )

    # Directives

    def _directive(self, at_secs: float, recorded: Directive, data: Json) -> None:
        replayed: Directive | RejectedCall | None
        if recorded.origin is DirectiveOrigin.DEFERRAL:
            replayed = SetVadSilenceDuration(
                duration_ms=self._proved_silence_ms(), origin=DirectiveOrigin.DEFERRAL
            )
        elif recorded.origin is DirectiveOrigin.MODEL:
            replayed = self._next_call(lambda parsed: parsed == recorded)
        else:
            return  # the application's own decision
        if replayed is not None and not isinstance(replayed, RejectedCall):
            self.result.directives.append(replayed)
        self._compare(at_secs, "directive", data, replayed)

    def _proved_silence_ms(self) -> int | None:
        """What the last continuation proved; one that waited for no answer is proved by its gap alone."""
        if self._continuations:
            return self._continuations.pop(0)
        if self._gap is None:
            return None
        gap_secs, silence_ms = self._gap
        return longer_silence_ms(vad_silence_ms=silence_ms, gap_secs=gap_secs, config=self._deferral_config)

    def _rejected(self, at_secs: float, recorded: RejectedCall, data: Json) -> None:
        if recorded.error in (CallError.NOT_SUPPORTED, CallError.NOT_NOW):
            # The call itself was in order; the pipeline could not carry it out.
            self._next_call(lambda parsed: not isinstance(parsed, RejectedCall))
            return
        self._compare(at_secs, "rejected", data, self._next_call(lambda parsed: parsed == recorded))

    def _next_call(self, fits: object) -> Directive | RejectedCall | None:
        """The oldest call that was not accounted for and fits; else the oldest one."""
        assert callable(fits)
        for index, parsed in enumerate(self._called):
            if fits(parsed):
                return self._called.pop(index)
        return self._called.pop(0) if self._called else None

    def _compare(self, at_secs: float, where: str, recorded: Json, replayed: object) -> None:
        plain = replayed if isinstance(replayed, (dict, str)) else encode(replayed)
        if recorded is not None or plain is not None:
            self.result.answers += 1
            if not _repeats(recorded, plain):
                self._differs(at_secs, where, recorded, plain)

    def _differs(self, at_secs: float, where: str, recorded: Json, replayed: Json) -> None:
        self.result.different += 1
        if len(self.result.differences) < _MOST_DIFFERENCES:
            difference = Difference(at_secs=at_secs, where=where, recorded=recorded, replayed=replayed)
            self.result.differences.append(difference)


def _repeats(recorded: Json, replayed: Json) -> bool:
    """Whether two plain values agree in all that the recording knows: a newer version's values have more fields."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        return all(key in replayed and _repeats(value, replayed[key]) for key, value in recorded.items())
    if isinstance(recorded, list) and isinstance(replayed, list):
        return len(recorded) == len(replayed) and all(map(_repeats, recorded, replayed))
    return recorded == replayed


def _arguments(core: object, method: str, arguments: Json) -> dict[str, object]:
    cls: type = type(core)
    hints = _parameter_hints(cls, method)
    names = [name for name, _ in parameters_of(getattr(core, method))]
    if not isinstance(arguments, list) or len(arguments) != len(names):
        raise BadInputError(f"recorded call of {method} has other parameters than this version's")
    return {name: decode(hints[name], item) for name, item in zip(names, arguments, strict=True)}


@lru_cache(maxsize=128)
def _parameter_hints(cls: type, method: str) -> Mapping[str, TypeHint]:
    return get_type_hints(getattr(cls, method))
