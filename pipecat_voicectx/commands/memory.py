"""Looks into, exports, erases or consolidates what is remembered of one caller, or takes it over from Mem0.

`inspect` shows counts only. `export` writes everything as JSON. `erase` deletes pages, facts, vectors, journal entries
and brains, then looks for them again, in the stores and in the files, and exits with 1 unless nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipecat_voicectx.errors import UnavailableError, UsageError
from pipecat_voicectx.memory.pages import Owner

if TYPE_CHECKING:
    from pipecat_voicectx.stores.embedders import Embedder
    from pipecat_voicectx.stores.mem0_import import Mem0Memory
    from pipecat_voicectx.stores.memory_admin import MemoryAdmin

__all__ = ["add_arguments", "run"]

_EXIT_LEFT_OVER = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `voicectx memory`."""
    parser.add_argument(
        "action",
        choices=["inspect", "export", "erase", "consolidate", "import"],
        help="counts, everything as JSON, delete and look again, tidy up facts and persona, or take over from Mem0",
    )
    parser.add_argument(
        "--path", type=Path, required=True, metavar="DIR", help="the folder the bot was given"
    )
    parser.add_argument("--user", metavar="ID", help="the caller; without it, inspect lists everybody")
    parser.add_argument("--agent", metavar="ID", default="default", help="the bot (default: default)")
    parser.add_argument("--embeddings", type=Path, metavar="DIR", help="fastembed folder of all-MiniLM-L6-v2")
    parser.add_argument(
        "--lexical", action="store_true", help="the store was filled with the lexical embedder"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the result here instead of the terminal"
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="import: what Mem0's get_all returned, as JSON",
    )
    parser.add_argument("--yes", action="store_true", help="erase without asking back")


def run(args: argparse.Namespace) -> int:
    """Runs one action."""
    if args.action != "inspect" and not args.user:
        raise UsageError(f"voicectx memory {args.action} needs --user ID")
    if args.action == "import" and args.source is None:
        raise UsageError("voicectx memory import needs --from FILE: what Mem0's get_all returned, as JSON")
    if args.action == "erase" and not args.yes and not _confirmed(args.user):
        raise UsageError("nothing was erased; repeat with --yes to erase without being asked")
    return asyncio.run(_run(args))


def _confirmed(user: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"Erase everything about {user!r}? Type the id again: ").strip() == user


async def _run(args: argparse.Namespace) -> int:
    from pipecat_voicectx.stores.mem0_import import read_mem0_memories
    from pipecat_voicectx.stores.memory_admin import MemoryAdmin

    memories = await asyncio.to_thread(read_mem0_memories, args.source) if args.action == "import" else []
    admin = await MemoryAdmin.open(args.path, embedder=_embedder(args), create=args.action == "import")
    try:
        result, code = await _act(admin, args, memories)
    finally:
        await admin.close()
    text = json.dumps(result, indent=2, ensure_ascii=False)
    if args.json is not None:
        try:
            await asyncio.to_thread(args.json.write_text, text + "\n", "utf-8")
        except OSError as error:
            raise UnavailableError(f"{args.json} cannot be written: {error.strerror}") from error
    else:
        print(text)
    return code


def _embedder(args: argparse.Namespace) -> Embedder:
    """The one the store was filled with. Looking, exporting and erasing go without its model where it is not here."""
    from pipecat_voicectx.stores.embedders import AbsentEmbedder, FastEmbedder, LexicalEmbedder

    if args.lexical:
        return LexicalEmbedder()
    embedder = FastEmbedder(path=args.embeddings)
    try:
        embedder.load()
    except UnavailableError as error:
        if args.action in ("consolidate", "import"):
            raise UnavailableError(
                f"{args.action} needs {embedder.name}, which is not in fastembed's cache on this machine; give its "
                "folder with --embeddings DIR, or run a bot once, which fetches it"
            ) from error
        return AbsentEmbedder(embedder)
    return embedder


async def _act(
    admin: MemoryAdmin, args: argparse.Namespace, memories: Sequence[Mem0Memory]
) -> tuple[object, int]:
    if not args.user:
        owners = await admin.owners()
        return [{"user": each.user_id, "agent": each.agent_id} for each in owners], 0
    owner = Owner(user_id=args.user, agent_id=args.agent)
    if args.action == "inspect":
        return asdict(await admin.inspect(owner)), 0
    if args.action == "export":
        return await admin.export(owner), 0
    if args.action == "erase":
        erasure = await admin.erase(owner)
        return {**asdict(erasure), "proven": erasure.proven}, 0 if erasure.proven else _EXIT_LEFT_OVER
    if args.action == "import":
        return {"memories": len(memories), "new_facts": await admin.take_over(owner, memories)}, 0
    plan = await admin.consolidate(owner, now_wall_secs=time.time())
    counts = {"merged": plan.merged, "superseded": plan.superseded, "forgotten": plan.forgotten}
    return {**counts, "reflections": [each.text for each in plan.reflections]}, 0
