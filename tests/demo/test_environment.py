import os
import subprocess
import sys
from pathlib import Path

from pipecat_voicectx.demo.environment import scripted_environment

# As Pipecat's runner does when it is imported.
READS_DOTENV = """
import os, sys
from dotenv import load_dotenv
load_dotenv(sys.argv[1], override=True)
print(os.environ["OPENAI_API_KEY"], os.environ["OPENAI_BASE_URL"])
"""


def test_a_key_in_a_dotenv_file_does_not_make_a_scripted_bot_a_hosted_one(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("OPENAI_API_KEY=sk-a-real-one\nOPENAI_BASE_URL=https://elsewhere.example/v1\n", "utf-8")
    told = subprocess.run(
        [sys.executable, "-c", READS_DOTENV, str(dotenv)],
        env={**os.environ, **scripted_environment("http://127.0.0.1:1/v1")},
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout == " http://127.0.0.1:1/v1\n"
