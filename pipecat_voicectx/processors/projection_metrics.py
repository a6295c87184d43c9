"""What one request to the LLM is made of, as Pipecat metrics: for observers that read `MetricsFrame`s."""

from __future__ import annotations

from pipecat.metrics.metrics import MetricsData

from pipecat_voicectx.processors.window_planner import Projection
from pipecat_voicectx.projection.report import ProjectionReport, make_report

__all__ = ["ProjectionMetricsData", "counted", "described"]


class ProjectionMetricsData(MetricsData):
    """Estimated tokens of a request by part, and of the recalled pages by fidelity. Pushed when metrics are enabled.

    The same numbers as in the `ProjectionReport` of `on_projected`; no text.
    """

    system_tokens: int
    tools_tokens: int
    history_tokens: int
    recalled_tokens: int
    state_tokens: int
    audio_tokens: int
    """Of the recalled pages, by fidelity."""
    transcript_tokens: int
    summary_tokens: int
    omitted_pages: int
    took_secs: float

    @classmethod
    def of(cls, report: ProjectionReport, *, processor: str) -> ProjectionMetricsData:
        """The report's numbers."""
        return cls(
            processor=processor,
            system_tokens=report.tokens.system,
            tools_tokens=report.tokens.tools,
            history_tokens=report.tokens.history,
            recalled_tokens=report.tokens.recalled,
            state_tokens=report.tokens.state,
            audio_tokens=report.audio_tokens,
            transcript_tokens=report.transcript_tokens,
            summary_tokens=report.summary_tokens,
            omitted_pages=report.omitted,
            took_secs=report.took_secs,
        )


def counted(projection: Projection, *, tools_tokens: int, took_secs: float) -> ProjectionReport:
    """The report of a projection. Takes milliseconds in a large window: not for the response path."""
    return make_report(
        projection.edit,
        projection.plan,
        tools_tokens=tools_tokens,
        by_meaning=projection.by_meaning,
        resumed=projection.resumed,
        took_secs=took_secs,
    )


def described(report: ProjectionReport) -> str:
    """The report as a line of a log: numbers, no text."""
    parts = report.tokens
    return (
        f"context of about {parts.total} tokens (system {parts.system}, tools {parts.tools}, history {parts.history}, "
        f"recalled {parts.recalled}, state {parts.state}); recalled as audio {report.audio}, transcript "
        f"{report.transcripts}, summary {report.summaries}, left out {report.omitted}"
    )
