"""Runs the eval suite of the bots without a key: a local server plays the language model, by the demo's rules.

    python bots/evals/run.py [more arguments of `pipecat eval suite`]

With OPENAI_API_KEY set, run the same suite against a hosted model:  pipecat eval suite bots/evals/suite.yaml
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from pipecat_voicectx.demo.environment import scripted_environment
from pipecat_voicectx.demo.policy import TripPolicy
from pipecat_voicectx.demo.scenario import load_scenario
from pipecat_voicectx.testing.openai_server import OpenAIServer

SUITE = Path(__file__).with_name("suite.yaml")


async def run(arguments: list[str]) -> int:
    """Serves the scripted model while the harness runs; the exit code is the harness's."""
    async with OpenAIServer(TripPolicy(load_scenario(None))) as server:
        with tempfile.TemporaryDirectory(prefix="voicectx-evals-") as store:
            environment = {
                **os.environ,
                **scripted_environment(server.base_url),
                "VOICECTX_STORE": store,
            }
            harness = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "pipecat.evals", "suite", str(SUITE), *arguments, env=environment
            )
            return await harness.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
