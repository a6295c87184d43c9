"""Switches off the telemetry of ONNX Runtime; import it before anything that imports qdrant_client or fastembed.

Since 1.3x the Linux wheels of onnxruntime write a device id to `~/.cache/Microsoft` and send usage events to
events.data.microsoft.com as soon as they are imported, and qdrant_client imports them wherever fastembed is installed
(seen with onnxruntime 1.32.0). A user who wants them sets `ORT_DISABLE_TELEMETRY=0`.
"""

from __future__ import annotations

import os
import sys

if os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1") not in {"0", "false", "False", ""}:
    _runtime = sys.modules.get("onnxruntime")
    if _runtime is not None and hasattr(_runtime, "disable_telemetry_events"):
        _runtime.disable_telemetry_events()  # too late for the device id, in time for the events
