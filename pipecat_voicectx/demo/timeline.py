"""The demo in the terminal: what happens while it happens, then the summary.

On a terminal, lines roll by above a progress bar. Anywhere else (a pipe, a build log) the same lines come plain. The
timeline only reads events; leaving it out changes no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipecat_voicectx.demo.scenario import Scenario
from pipecat_voicectx.demo.score import PassScore
from pipecat_voicectx.demo.summary import summary_rows

__all__ = ["Timeline", "shown_secs"]

Event = Mapping[str, object]

# A build log has no width of its own; two columns of numbers and an explanation fit.
_PLAIN_WIDTH = 110
_PASSES = 2
# Chosen: of an answer that was cut off, enough words to see in which sentence.
_CUT_WORDS = 8


class Timeline:
    """Shows two passes. Use as a context manager, so that the terminal is given back whatever happens."""

    def __init__(self, scenario: Scenario, *, console: Console | None = None) -> None:
        self._scenario = scenario
        self._console = console or _console()
        self._roles = {utterance.id: utterance for utterance in scenario.utterances}
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._pass = 0
        self._settled: set[object] = set()
        self._losing: list[tuple[float, float]] = []
        """When the present utterance loses its packets: known from the scenario before the loss is over and told."""

    def __enter__(self) -> Timeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def note(self, text: str) -> None:
        """A line of its own."""
        self._console.print(text, style="dim", markup=False)

    def begin(self, *, plugin: bool) -> None:
        """The next pass starts."""
        self.end()
        self._pass += 1
        self._losing = []
        self._settled.clear()
        name = "with pipecat-voicectx" if plugin else "stock Pipecat"
        style = "bold cyan" if plugin else "bold"
        self._console.print()
        self._console.print(f"Pass {self._pass} of {_PASSES}: {name}", style=style)
        if self._console.is_terminal:
            columns = (TextColumn("  {task.description}"), BarColumn(bar_width=32), TimeElapsedColumn())
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
            self._task = self._progress.add_task("connecting", total=len(self._roles) + 1)

    def event(self, event: Event) -> None:
        """Shows an event, if it is one of those a reader wants to see."""
        line = self._line(event)
        if line is not None:
            text, style = line
            minutes, seconds = divmod(shown_secs(event), 60)
            self._console.print(
                f"  [dim]{int(minutes)}:{seconds:04.1f}[/dim]  {text}", style=style, highlight=False, no_wrap=True,
                overflow="ellipsis", crop=self._console.is_terminal, soft_wrap=not self._console.is_terminal,
            )  # fmt: skip
        if self._progress is not None and self._task is not None and event.get("kind") == "utterance":
            self._progress.update(self._task, advance=1, description=str(event.get("id")).replace("_", " "))

    def end(self) -> None:
        """The pass is over; safe to call again."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._task = None

    def summary(self, stock: PassScore, plugin: PassScore) -> None:
        """The table."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
        table.add_column("", overflow="fold", ratio=1)
        table.add_column("stock", justify="right", no_wrap=True)
        table.add_column("with plugin", justify="right", style="bold cyan", no_wrap=True)
        for row in summary_rows(stock, plugin):
            table.add_row(f"{escape(row.label)}\n  [dim]{escape(row.why)}[/dim]", row.stock, row.plugin)
        self._console.print()
        self._console.print(table)

    def _line(self, event: Event) -> tuple[str, str] | None:
        source, kind = event.get("src"), event.get("kind")
        match (source, kind):
            case ("caller", "call_start"):
                self._settled.clear()  # turns are numbered anew in each call
                return (f"[bold]call {event.get('call')}[/bold]", "")
            case ("caller", "utterance"):
                self._losing = self._losses(event)
                return (f"caller    “{escape(str(event.get('text')))}”", "")
            case ("caller", "loss"):
                lost_secs = _number(event.get("end")) - _number(event.get("at"))
                return (f"network   {lost_secs:.1f} s of packets lost until now", "red")
            case ("bot", "turn_stop"):
                return self._turn_stop(_number(event.get("at")))
            case ("caller", "barge_in"):
                return ("caller    barges in", "yellow")
            case ("bot", "bot_words"):
                return (f"bot       {escape(_said(event))}", "blue")
            case ("caller", "hangup"):
                return ("caller    hangs up", "")
            case ("voicectx", "heard") if event.get("interrupted"):
                return self._heard_line(event)
            case ("voicectx", _):
                return _own_line(event)
        return None

    def _heard_line(self, event: Event) -> tuple[str, str] | None:
        """Once a turn: later acknowledgements amend it, word by word."""
        if event.get("turn_id") in self._settled:
            return None
        self._settled.add(event.get("turn_id"))
        count = len(str(event.get("heard_text", "")).split())
        words = "word was" if count == 1 else "words were"
        return (f"plugin    {count} {words} heard of the bot's turn; so much goes into the context", "cyan")

    def _losses(self, event: Event) -> list[tuple[float, float]]:
        begin_secs = _number(event.get("at"))
        utterance = self._roles.get(str(event.get("id")))
        bursts = utterance.loss if utterance is not None else ()
        return [(begin_secs + burst.start_secs, begin_secs + burst.end_secs) for burst in bursts]

    def _turn_stop(self, at_secs: float) -> tuple[str, str] | None:
        """Only a turn that ends while packets are being lost is news."""
        if any(start < at_secs < end + 1.0 for start, end in self._losing):
            return ("bot       takes the turn, though the caller is still speaking", "bold red")
        return None


def shown_secs(event: Event) -> float:
    """When the line of an event belongs into the list: what is known at its end only, then; else at its beginning."""
    late = event.get("kind") == "loss" or (event.get("kind") == "bot_words" and _cut_after(event) is not None)
    return _number(event.get("end") if late else event.get("at"))


def _own_line(event: Event) -> tuple[str, str] | None:
    """What our processors did, in the pass that has them."""
    match event.get("kind"):
        case "held":
            return ("plugin    holds the turn open: nothing arrives, and that is no silence", "cyan")
        case "released":
            return (f"plugin    lets go after {_number(event.get('held_secs')):.1f} s", "cyan")
        case "directive" if event.get("type") == "SetResponseSpeed":
            return (
                f"plugin    bot speaks at {_number(event.get('words_per_minute')):.0f} words a minute now",
                "cyan",
            )
    return None


def _said(event: Event) -> str:
    """The answer; of one that was cut off, the last words that left."""
    words, cut_after = _left(event), _cut_after(event)
    if cut_after is None:
        return f"“{' '.join(words) or event.get('text', '')}”"
    dots = "… " if cut_after > _CUT_WORDS else ""
    return f"cut off after {cut_after} words: “{dots}{' '.join(words[-_CUT_WORDS:])}”"


def _cut_after(event: Event) -> int | None:
    """How many words left, where some of the text did not; None for a whole answer."""
    left, made = len(_left(event)), len(str(event.get("text", "")).split())
    return left if 0 < left < made else None


def _left(event: Event) -> list[str]:
    words = event.get("words")
    return [str(word[0]) for word in words] if isinstance(words, list) else []


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH, no_color=True)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
