"""The blocking face of the Python door, for scripts and notebooks.

Everything else here is async; this face keeps one event loop in a thread of its own, so it also works where a loop
runs already, as in a notebook.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypedDict, TypeVar, Unpack

import yaml

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.meta import name_of
from allaboard.kube.client import Select
from allaboard.kube.remote import RemoteClient
from allaboard.sdk import asking
from allaboard.sdk.building import Wish, train_job
from allaboard.sdk.explaining import Explanation
from allaboard.sdk.follow import Line
from allaboard.sdk.functions import script_of
from allaboard.sdk.jobs import Job

Result = TypeVar("Result")


class How(TypedDict, total=False):
    """How to train: all of it may be left out."""

    name: str
    nodes: int
    gpus: int
    cpus: str | float
    memory: str
    runtime: str
    queue: str
    env: Mapping[str, str]
    args: Mapping[str, object] | tuple[str, ...]  # of a function by name; of a script in order


class Aboard:
    """One cluster: the plane of this machine, or the one a kubeconfig names."""

    def __init__(self, kubeconfig: str = "", context: str = "", namespace: str = "") -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="aboard", daemon=True).start()
        self._connection = self._do(asking.connected(kubeconfig, context))
        self.namespace = namespace or self._connection.namespace

    # --- jobs ---

    def run(self, what: str | Path | Callable[..., object], **how: Unpack[How]) -> str:
        """Submit a script (its path) or a function (its source travels); the name of the job."""
        document = train_job(wish_of(what, self.namespace, how))
        return name_of(self._do(asking.submitted(self._client, document)))

    def wait(self, name: str, until: str = "complete", timeout: float | None = None) -> Job:
        """Until a job is complete (or failed), `running`, or in a `condition=…`; TimeoutError when it takes longer."""
        return self._do(asking.until(self._client, self._key(name), until, timeout))

    def logs(self, name: str, rank: str = "all", *, follow: bool = False) -> Iterator[Line]:
        """What the ranks print; with `follow`, as it comes, until the job is over."""
        return self._stream(asking.lines(self._client, self._key(name), rank, follow=follow))

    def why(self, name: str) -> Explanation:
        """Why a job is where it is."""
        return self._do(asking.explained(self._client, self._key(name)))

    def scale(self, name: str, nodes: int) -> str:
        """Another number of nodes for a job that waits, is suspended, or is elastic."""
        return self._do(asking.scaled(self._client, self._key(name), nodes))

    # --- objects ---

    def apply(self, document: Document | str | Path) -> Documents:
        """Create or change what a document, a YAML text or a file describes."""
        return self._do(asking.applied(self._client, _documents(document), self.namespace))

    def get(self, name: str, kind: str = "trainjob") -> Document:
        """One object; NotFound where there is none."""
        return self._do(asking.found(self._client, kind, self._key(name)))

    def list(self, kind: str = "trainjob", labels: str = "") -> Documents:
        """The objects of a kind."""
        return self._do(asking.listed(self._client, kind, Select(self.namespace, labels=labels)))

    def delete(self, name: str, kind: str = "trainjob") -> None:
        """Remove an object and everything it owns; it is gone when this returns."""
        self._do(asking.deleted(self._client, kind, self._key(name)))

    # --- the loop ---

    def close(self) -> None:
        """Let go of the connection and the thread."""
        self._do(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def __enter__(self) -> Aboard:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _client(self) -> RemoteClient:
        return self._connection.client

    def _key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def _do(self, work: Coroutine[object, object, Result]) -> Result:
        """Work on the loop, waited for; Ctrl-C ends the work too."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stream(self, lines: AsyncIterator[Result]) -> Iterator[Result]:
        """An async stream as a plain one, with what goes wrong raised here."""
        ready: queue.SimpleQueue[tuple[Result | None, bool]] = queue.SimpleQueue()

        async def pump() -> None:
            try:
                async for line in lines:
                    ready.put((line, False))
            finally:
                ready.put((None, True))

        pumping = asyncio.run_coroutine_threadsafe(pump(), self._loop)
        try:
            while True:
                line, over = ready.get()
                if over:
                    pumping.result()
                    return
                assert line is not None
                yield line
        finally:
            pumping.cancel()


def train(function: Callable[..., object], **how: Unpack[How]) -> Job:
    """Train a function on the plane of this machine and wait for it: `train(fit, nodes=2, args={"lr": 0.1})`."""
    with Aboard() as aboard:
        return aboard.wait(aboard.run(function, **how))


def wish_of(what: str | Path | Callable[..., object], namespace: str, how: How) -> Wish:
    """What is wanted, from a script or a function and the options."""
    args = how.get("args", ())
    if callable(what):
        stem, script = getattr(what, "__name__", "job"), script_of(what, args if isinstance(args, Mapping) else {})
    else:
        stem, script = Path(what).stem, Path(what).read_text()
    slug = "".join(c if c.isalnum() else "-" for c in stem.lower()).strip("-")[:40] or "job"
    asked = {"nvidia.com/gpu": how.get("gpus"), "cpu": how.get("cpus"), "memory": how.get("memory")}
    return Wish(
        name=how.get("name") or f"{slug}-{secrets.token_hex(2)}",
        script=script,
        namespace=namespace,
        file=f"{slug}.py",
        args=() if callable(what) else tuple(map(str, args)),
        nodes=how.get("nodes", 1),
        runtime=how.get("runtime", "torch-distributed"),
        queue=how.get("queue", ""),
        resources={name: str(amount) for name, amount in asked.items() if amount},
        env=dict(how.get("env", {})),
    )


def _documents(given: Document | str | Path) -> Documents:
    if isinstance(given, dict):
        return [given]
    text = given.read_text() if isinstance(given, Path) else given
    if "\n" not in text and text.endswith((".yaml", ".yml", ".json")):
        text = Path(text).read_text()
    return [document for document in yaml.safe_load_all(text) if document]
