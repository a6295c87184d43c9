"""Adds our functions to the tools of an LLM context without disturbing the application's own."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.utils.types import is_given

from pipecat_voicectx.orchestrator.functions import FunctionSpec
from pipecat_voicectx.projection.costs import estimate_tokens

__all__ = ["advertise", "advertise_schemas", "tools_tokens", "warn_of_taken_names"]


def advertise(context: LLMContext, functions: Sequence[FunctionSpec], *, handler: Any) -> None:
    """Makes sure that `context` advertises `functions`, all with one handler; see `advertise_schemas`."""
    advertise_schemas(context, [_schema(spec, handler) for spec in functions])


def advertise_schemas(context: LLMContext, schemas: Sequence[FunctionSchema]) -> None:
    """Makes sure that `context` advertises `schemas`, behind whatever it advertises already.

    The application may replace its tools at any time; call this before each inference. Its own set is not changed:
    sets may be shared between sessions. A tool of the application with one of our names stays, ours is left out.
    """
    tools: Any = context.tools
    known: ToolsSchema | None = tools if is_given(tools) and tools else None
    names = {schema.name for schema in known.standard_tools} if known else set()
    missing = [schema for schema in schemas if schema.name not in names]
    if not missing:
        return
    if known is None:
        context.set_tools(ToolsSchema(standard_tools=[*missing]))
        return
    # A direct function must go in as the function it is, or its handler would count as no longer advertised.
    direct = {wrapper.name: wrapper.function for wrapper in known.direct_functions}
    theirs = [direct.get(schema.name, schema) for schema in known.standard_tools]
    context.set_tools(ToolsSchema(standard_tools=[*theirs, *missing], custom_tools=known.custom_tools))


def tools_tokens(tools: object) -> int:
    """What the functions of a context cost, estimated."""
    if not isinstance(tools, ToolsSchema):
        return 0
    definitions = [
        tool.to_default_dict() for tool in tools.standard_tools if hasattr(tool, "to_default_dict")
    ]
    return estimate_tokens(json.dumps(definitions, default=str))


def _schema(spec: FunctionSpec, handler: Any) -> FunctionSchema:
    return FunctionSchema(
        name=spec.name,
        description=spec.description,
        properties={spec.argument: dict(spec.schema)},
        required=[spec.argument],
        handler=handler,
    )


def warn_of_taken_names(processor: object, llm: object, names: Collection[str]) -> None:
    """Ours are not registered: Pipecat registers the handlers of the schemas that the context advertises."""
    has_function = getattr(llm, "has_function", lambda _name: False)
    for name in sorted(names):
        if has_function(name):
            logger.warning("{}: the application has a function {} of its own", processor, name)
