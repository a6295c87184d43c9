"""The travel assistant's own tool: what an application brings along, and nothing the plugin knows about."""

from __future__ import annotations

import json
from importlib.resources import files

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.services.llm_service import FunctionCallParams

__all__ = ["FIND_TRIPS", "find_trips"]

FIND_TRIPS = FunctionSchema(
    name="find_trips",
    description="Finds trips that can be booked now. Call it once when the caller wants to see options.",
    properties={
        "month": {"type": "string", "description": "Month of travel, if the caller named one."},
        "travellers": {"type": "integer", "description": "Number of people."},
    },
    required=[],
)


async def find_trips(params: FunctionCallParams) -> None:
    """Answers as a small agency's inventory does: five offers with all a clerk needs to sell them."""
    inventory = (files("pipecat_voicectx.demo") / "trips.json").read_text(encoding="utf-8")
    await params.result_callback(json.loads(inventory))
