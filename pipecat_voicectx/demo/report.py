"""The report: one self-contained HTML page about one call, told twice.

The page is made of three files beside this one (markup, style, script), the two passes' events as data, and the
caller's recordings as sound. It loads nothing from anywhere. Every sentence with a number in it is written from the
events of this run; a pass in which something did not happen says so.
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from string import Template

import numpy as np

from pipecat_voicectx.demo.recording import Recording, read_audio
from pipecat_voicectx.demo.report_data import PassView, view_pass
from pipecat_voicectx.demo.report_story import Story
from pipecat_voicectx.demo.scenario import Role, Scenario
from pipecat_voicectx.demo.score import PassScore, score_pass
from pipecat_voicectx.demo.summary import SummaryRow, summary_rows

__all__ = ["render_report"]

Event = Mapping[str, object]

STOCK_NAME = "Stock Pipecat"
PLUGIN_NAME = "With pipecat-voicectx"
_ENVELOPE_SECS = 0.02
# Chosen: the eight recordings are 0.6 MB; a scenario of somebody's own may be long, and a page should open at once.
_MAX_AUDIO_BYTES = 1_800_000


def render_report(
    scenario: Scenario, *, stock: Iterable[Event], voicectx: Iterable[Event], transport: str
) -> str:
    """The whole page as text.

    Args:
        scenario: What was played, with its recordings.
        stock: All events of the pass without the plugin.
        voicectx: All events of the pass with it.
        transport: `webrtc`, or `in-process` for the virtual clock.

    Raises:
        BadInputError: A recording cannot be read.
    """
    stock_events, plugin_events = list(stock), list(voicectx)
    views = (view_pass(stock_events, scenario), view_pass(plugin_events, scenario))
    scores = (score_pass(stock_events, scenario), score_pass(plugin_events, scenario))
    story = Story(scenario=scenario, stock=views[0], plugin=views[1], scores=scores)
    folder = files("pipecat_voicectx.demo") / "report_page"
    page = Template((folder / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(f"One call, told twice: {scenario.title}"),
        style=(folder / "style.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        standfirst=story.standfirst(),
        summary=_summary_table(*scores),
        moments=story.moments(),
        transport=_transport(transport),
        versions=html.escape(_versions()),
        # "</" would end the script element, wherever it stands in a string.
        data=json.dumps(_data(scenario, *views), ensure_ascii=False, separators=(",", ":")).replace(
            "</", "<\\/"
        ),
    )


def _data(scenario: Scenario, stock: PassView, plugin: PassView) -> dict[str, object]:
    recordings = {u.id: scenario.recordings[u.id] for u in scenario.utterances}
    size = sum(recording.file.stat().st_size for recording in recordings.values())
    tokens = [round(_number(r["tokens"])) for view in (stock, plugin) for r in view.requests]
    passes = (("stock", STOCK_NAME, stock), ("voicectx", PLUGIN_NAME, plugin))
    return {
        "duration": max(stock.duration_secs, plugin.duration_secs),
        "max_tokens": max(tokens, default=1),
        "passes": [{"key": key, "name": name, **view.as_json()} for key, name, view in passes],
        "envelopes": {id_: _envelope(recording) for id_, recording in recordings.items()},
        "audio": {id_: _data_uri(r) for id_, r in recordings.items()} if size <= _MAX_AUDIO_BYTES else {},
        "wishes": [constraint.pattern for constraint in scenario.constraints],
        "jumps": _jumps(scenario, stock, plugin),
        "drift": _span(scenario, Role.DRIFT, stock, plugin) or (0, 0),
    }


def _envelope(recording: Recording) -> list[int]:
    """Peaks of 20 ms, 0..99, loud things near 99."""
    samples = np.abs(read_audio(recording).astype(np.int32))
    step = round(_ENVELOPE_SECS * recording.sample_rate_hz)
    peaks = samples[: len(samples) // step * step].reshape(-1, step).max(axis=1)
    return [int(peak) for peak in np.rint(99 * peaks / max(1, int(samples.max())))]


def _data_uri(recording: Recording) -> str:
    """Base64 of the FLAC, without the prefix: the page decodes it itself."""
    return base64.b64encode(recording.file.read_bytes()).decode("ascii")


def _span(scenario: Scenario, role: Role, *views: PassView) -> tuple[float, float] | None:
    """From the first utterance of a role to the bot's last word before anything else is said, over both passes."""
    ids = scenario.ids_with_role(role)
    begins, ends = [], []
    for view in views:
        said = [_number(u["at"]) for u in view.utterances if u["id"] in ids]
        if said:
            others = [_number(u["at"]) for u in view.utterances if u["id"] not in ids]
            later = [at for at in others if at > said[-1]]
            begins.append(said[0])
            ends.append(min(later, default=view.duration_secs))
    return (round(min(begins), 2), round(max(ends), 2)) if begins else None


def _jumps(scenario: Scenario, stock: PassView, plugin: PassView) -> list[dict[str, object]]:
    labels = {
        Role.REQUEST: "Packet loss",
        Role.BARGE_IN: "Barge-in",
        Role.DRIFT: "Drift",
        Role.RESUME: "Call back",
    }
    jumps: list[dict[str, object]] = []
    for role, label in labels.items():
        span = _span(scenario, role, stock, plugin)
        if span is None:
            continue
        begin, end = span
        if role is Role.REQUEST:
            end = min(end, begin + 14)
        elif role is Role.BARGE_IN:
            moments = [_number(barge["at"]) for view in (stock, plugin) for barge in view.barge_ins] or [
                begin
            ]
            begin, end = min(moments) - 5, max(moments) + 3
        jumps.append({"label": label, "from": round(begin - 0.7, 2), "to": round(end + 0.3, 2)})
    return jumps


def _summary_table(stock: PassScore, plugin: PassScore) -> str:
    rows = "".join(_summary_row(row) for row in summary_rows(stock, plugin))
    return (
        '<table class="sum"><thead><tr><th scope="col">What happened to this caller</th>'
        f'<th scope="col" class="n">{STOCK_NAME}</th><th scope="col" class="n ours">{PLUGIN_NAME}</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _summary_row(row: SummaryRow) -> str:
    cells = []
    top = max((value for value in (row.stock_value, row.plugin_value) if value is not None), default=0.0)
    for css, text, value in (("stock", row.stock, row.stock_value), ("ours", row.plugin, row.plugin_value)):
        meter = f'<span class="meter" style="width:{100 * value / top:.0f}%"></span>' if value and top else ""
        number, _, unit = text.partition(" ")
        shown = html.escape(number) + (f" <small>{html.escape(unit)}</small>" if unit else "")
        cells.append(f'<td class="n {css}">{shown}{meter}</td>')
    return (
        f'<tr><th scope="row">{html.escape(row.label)} <span class="why">{html.escape(row.why)}</span></th>'
        f"{''.join(cells)}</tr>"
    )


def _transport(transport: str) -> str:
    ways = {
        "webrtc": "The caller was a process of its own with a WebRTC peer: "
        "real packets on real sockets, in real time.",
        "in-process": "The caller ran in the bot’s process on a virtual clock (transport: in-process), with the same "
        "Opus packets, the same losses and the same jitter buffer.",
    }
    return html.escape(ways.get(transport, transport))


def _versions() -> str:
    found = []
    for name in ("pipecat-voicectx", "pipecat-ai", "aiortc"):
        with contextlib.suppress(PackageNotFoundError):  # a source tree that was never installed
            found.append(f"{name} {version(name)}")
    return f"{', '.join([*found, f'Python {platform.python_version()}'])}."


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
