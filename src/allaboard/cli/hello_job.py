"""The first job: softmax regression, trained by N processes that average their gradients over a ring.

It runs inside every pod of `aboard run hello`, with numpy and the standard library alone. What it knows of the
others comes from the environment a torch runtime injects (PET_*): its own rank, how many there are, and where
rank 0 lives; the other ranks have the same name with another number.
"""

import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.request
from datetime import UTC, datetime

import numpy as np

STEPS = int(os.environ.get("HELLO_STEPS", "120"))
SAMPLES, FEATURES, CLASSES = 2000, 20, 5
PATIENCE = 300.0  # seconds: only a hang takes longer, however busy the machine


def rank_name(master: str, rank: int) -> str:
    """The pod name of a rank: `job-node-0-0.job` becomes `job-node-0-1.job` for rank 1."""
    if master.replace(".", "").isdigit():  # a plain process is told an address; its own name has its rank at the end
        return re.sub(r"-\d+$", f"-{rank}", socket.gethostname())
    host, dot, domain = master.partition(".")
    return re.sub(r"-0$", f"-{rank}", host) + dot + domain


class Ring:
    """Every rank sends to the next and hears from the one before; sums travel round in two laps."""

    def __init__(self, rank: int, size: int, master: str, port: int) -> None:
        self.rank, self.size = rank, size
        if size == 1:
            return
        listener = socket.create_server((socket.gethostbyname(rank_name(master, rank)), port))
        self.next = self._dial(rank_name(master, (rank + 1) % size), port)
        listener.settimeout(PATIENCE)
        self.before, _ = listener.accept()
        listener.close()

    def _dial(self, host: str, port: int) -> socket.socket:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection((host, port), timeout=PATIENCE)
            except OSError as error:
                if time.monotonic() > deadline:
                    sys.exit(f"rank {self.rank}: {host}:{port} did not answer in {PATIENCE:.0f} s: {error}")
                time.sleep(0.02)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """All-reduce: lap one adds up one chunk per rank, lap two hands the sums round."""
        if self.size == 1:
            return values
        chunks = np.array_split(values.astype(np.float64).ravel(), self.size)
        for lap in range(self.size - 1):
            out, into = (self.rank - lap) % self.size, (self.rank - lap - 1) % self.size
            chunks[into] = chunks[into] + self._swap(chunks[out], len(chunks[into]))
        for lap in range(self.size - 1):
            out, into = (self.rank + 1 - lap) % self.size, (self.rank - lap) % self.size
            chunks[into] = self._swap(chunks[out], len(chunks[into]))
        return np.concatenate(chunks).reshape(values.shape)

    def _swap(self, chunk: np.ndarray, length: int) -> np.ndarray:
        """Send one chunk on while taking another in (chunks are far smaller than a socket's buffer)."""
        self.next.sendall(chunk.tobytes())
        data = b""
        while len(data) < length * 8:
            piece = self.before.recv(length * 8 - len(data))
            if not piece:
                sys.exit(f"rank {self.rank}: the rank before me hung up")
            data += piece
        return np.frombuffer(data)


class Reporter:
    """Tells the control plane how far we are, if it gave us an address for that."""

    def __init__(self) -> None:
        self.url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", "")
        self.authority = os.environ.get("KUBEFLOW_TRAINER_SERVER_CA_CERT", "")
        self.token_file = os.environ.get("KUBEFLOW_TRAINER_SERVER_TOKEN", "")

    def report(self, percent: int, loss: float) -> None:
        if not self.url:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        metrics = [{"name": "loss", "value": f"{loss:.4f}"}]
        body = {"trainerStatus": {"progressPercentage": percent, "metrics": metrics, "lastUpdatedTime": now}}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        try:
            with open(self.token_file) as file:
                request.add_header("Authorization", f"Bearer {file.read().strip()}")
            context = ssl.create_default_context(cafile=self.authority) if self.url.startswith("https") else None
            urllib.request.urlopen(request, timeout=PATIENCE, context=context).close()
        except OSError as error:
            print(f"progress was not reported: {error}", flush=True)
            self.url = ""


def make_data(rank: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every rank draws the same points and keeps its share of them."""
    draw = np.random.default_rng(7)
    centres = draw.normal(size=(CLASSES, FEATURES))
    labels = draw.integers(0, CLASSES, SAMPLES)
    points = centres[labels] + draw.normal(scale=1.4, size=(SAMPLES, FEATURES))
    return points[rank::size], labels[rank::size]


def gradient(weights: np.ndarray, points: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    """The gradient of the cross entropy, summed over the points, and the summed loss."""
    scores = points @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels]).sum())
    chances[rows, labels] -= 1
    return points.T @ chances, loss


def main() -> None:
    rank, size = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
    master, port = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
    ring = Ring(rank, size, master, port)
    roll_call = ring.sum(np.eye(size)[rank])
    assert np.array_equal(roll_call, np.ones(size)), f"ranks are not distinct: {roll_call}"
    print(f"hello from rank {rank} of {size} on {socket.gethostname()}", flush=True)
    points, labels = make_data(rank, size)
    weights, reporter, first = np.zeros((FEATURES, CLASSES)), Reporter(), 0.0
    for step in range(1, STEPS + 1):
        slope, loss = gradient(weights, points, labels)
        together = ring.sum(np.append(slope.ravel(), loss)) / SAMPLES
        weights -= 0.3 * together[:-1].reshape(weights.shape)
        loss = float(together[-1])
        first = first or loss
        if rank == 0 and (step % (STEPS // 6) == 0 or step == 1):
            print(f"step {step}/{STEPS} loss {loss:.4f}", flush=True)
            reporter.report(100 * step // STEPS, loss)
    assert loss < first / 2, f"the loss did not fall: {first:.4f} -> {loss:.4f}"
    right = ring.sum(np.array([float((np.argmax(points @ weights, axis=1) == labels).sum())]))[0]
    if rank == 0:
        print(f"accuracy {right / SAMPLES:.1%} after {STEPS} steps: all aboard", flush=True)


if __name__ == "__main__":
    main()
