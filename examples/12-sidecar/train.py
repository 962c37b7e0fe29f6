"""The trainer writes what it does into a shared directory; a sidecar beside it reports it."""

import pathlib
import time

report = pathlib.Path("/shared/progress")
for step in range(1, 6):
    report.write_text(f"step {step}")
    time.sleep(0.2)
assert pathlib.Path("/shared/seen").exists(), "the sidecar saw nothing"
print("trained, and the sidecar saw it", flush=True)
