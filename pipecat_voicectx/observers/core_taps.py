"""What the pure cores are asked, call by call, so that `replay` can ask fresh ones the same.

Our cores take time as an argument and call nobody, so the sequence of calls is all there is to a recording: a fresh
core that is asked the same gives the same answers. A tap wraps methods of one live core instance: the call goes
through first, then (method, arguments, answer) is noted. Removing the tap leaves the instance as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipecat_voicectx.observers.parts import SessionParts
from pipecat_voicectx.orchestrator.deferral import Deferral
from pipecat_voicectx.orchestrator.turn_hold import TurnHold
from pipecat_voicectx.states.network import NetworkEstimator
from pipecat_voicectx.states.utterances import UtteranceJoiner

__all__ = ["CORES", "NOT_KEPT", "CoreCall", "CoreTaps", "TappedCore", "parameters_of"]


NOT_KEPT = "~"
"""In place of an answer that says nothing new: a healthy line is asked about twenty times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TappedCore:
    """One core."""

    cls: type
    attribute: str
    """Where its processor holds it."""
    reads: frozenset[str] = frozenset()
    """Methods that change nothing and decide nothing; every other public one is recorded."""

    @property
    def methods(self) -> tuple[str, ...]:
        """What is recorded."""
        return tuple(
            name
            for name, member in vars(self.cls).items()
            if inspect.isfunction(member) and not name.startswith("_") and name not in self.reads
        )


CORES: Mapping[str, TappedCore] = {
    "speaking_rate": TappedCore(cls=UtteranceJoiner, attribute="_joiner"),
    "network": TappedCore(cls=NetworkEstimator, attribute="_estimator", reads=frozenset({"counting_source"})),
    "turn_hold": TappedCore(cls=TurnHold, attribute="_hold", reads=frozenset({"next_deadline"})),
    "deferral": TappedCore(cls=Deferral, attribute="_deferral", reads=frozenset({"next_deadline"})),
}
"""Every core that is recorded. One that is not there any more fails a test, and at run time only goes unrecorded."""


@dataclass(frozen=True, slots=True)
class CoreCall:
    """One call, in the order they were made."""

    core: str
    """Name in `CORES`, and which instance when there are several: `turn_hold#1`."""
    method: str
    arguments: tuple[object, ...]
    """By position, defaults filled in."""
    answer: object
    config: object = None
    """The core's configuration, with its first call."""


Sink = Callable[[CoreCall], None]


class CoreTaps:
    """The taps of one session."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._tapped: dict[int, tuple[object, tuple[str, ...]]] = {}
        self._count: dict[str, int] = {}

    def attach(self, parts: SessionParts) -> None:
        """Taps what is there and not tapped yet; cheap to repeat."""
        for owner in (*parts.ours, *parts.turn_holds()):
            for name, spec in CORES.items():
                core = getattr(owner, spec.attribute, None)
                if isinstance(core, spec.cls) and id(core) not in self._tapped:
                    self._tap(name, core)

    def detach(self) -> None:
        """Every core is as it was."""
        for core, methods in self._tapped.values():
            for method in methods:
                core.__dict__.pop(method, None)
        self._tapped.clear()

    def _tap(self, name: str, core: object) -> None:
        methods = CORES[name].methods
        number = self._count.get(name, 0)
        self._count[name] = number + 1
        label = name if not number else f"{name}#{number}"
        self._sink(CoreCall(label, "", (), None, _config_of(core)))
        inside: list[str] = []
        for method in methods:
            setattr(core, method, self._wrapped(label, method, getattr(core, method), inside))
        self._tapped[id(core)] = (core, methods)

    def _wrapped(
        self, label: str, method: str, original: Callable[..., object], inside: list[str]
    ) -> Callable[..., object]:
        sink, names = self._sink, parameters_of(original)

        def call(*args: object, **kwargs: object) -> object:
            if inside:  # the core calls itself: the fresh one will, too
                return original(*args, **kwargs)
            inside.append(method)
            try:
                answer = original(*args, **kwargs)
            finally:
                inside.pop()
            if kwargs or len(args) < len(names):
                args += tuple(kwargs.get(name, default) for name, default in names[len(args) :])
            sink(CoreCall(label, method, args, answer))
            return answer

        return call


def parameters_of(method: Callable[..., object]) -> list[tuple[str, object]]:
    """(name, default) of a bound method's parameters, in order."""
    return [
        (parameter.name, None if parameter.default is parameter.empty else parameter.default)
        for parameter in inspect.signature(method).parameters.values()
    ]


def _config_of(core: object) -> object:
    # The joiner's settings are two plain values; every other core keeps a configuration object.
    if isinstance(core, UtteranceJoiner):
        return {
            "default_language": core.__dict__.get("_default_language"),
            "window": core.__dict__["_estimator"].__dict__.get("_window"),
        }
    return core.__dict__.get("_config")
