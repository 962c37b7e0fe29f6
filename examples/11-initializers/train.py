"""Trains on what the initializers brought: a data set of points, and a model to start from."""

import csv
import json
import pathlib

workspace = pathlib.Path("/workspace")
model = json.loads((workspace / "model" / "model.json").read_text())
with open(workspace / "dataset" / "points.csv") as file:
    points = [(float(row["x"]), float(row["y"])) for row in csv.DictReader(file)]
print(f"begins with {model} and {len(points)} points", flush=True)

slope, offset = model["slope"], model["offset"]
for _ in range(500):
    errors = [(x, slope * x + offset - y) for x, y in points]
    slope -= 0.1 * sum(x * error for x, error in errors) / len(points)
    offset -= 0.1 * sum(error for _, error in errors) / len(points)
(workspace / "output.json").write_text(json.dumps({"slope": slope, "offset": offset}))
assert abs(slope - 2) < 0.01 and abs(offset + 1) < 0.01, (slope, offset)
print(f"learned y = {slope:.2f} x + {offset:.2f}", flush=True)
