"""A tiny cluster for the decisions of this room: enough API server to carry out a plan, and hands to play kubelet.

It is the outside world of these tests, not a double of ours: the real server has tests of its own.
"""

import copy
import itertools
from datetime import UTC, datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Conflict, Forbidden
from allaboard.api.meta import controller_of, key_of, stamp
from allaboard.jobs.controller import JobController, JobSetController, JobTtlController, TrackingController

START = datetime(2026, 1, 1, tzinfo=UTC)


class Crash(Exception):
    """The controller process died before this write."""


def finished(coroutine):
    """The result of a coroutine that never has to wait, as readers of this world never do."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a controller waited for something")


class World:
    """Documents by kind and key, a clock that only tests move, and the controllers under test."""

    def __init__(self, gates=()):
        self.time = START
        self.kinds = {kind: {} for kind in kinds.KNOWN}
        self.revision, self.uids = itertools.count(1), itertools.count(1)
        self.suffixes = itertools.count(1)
        self.gates = gates
        self.due = {}
        self.events, self.writes, self.refuse = [], 0, lambda document: None
        self.crash_after, self.acting, self.conflicts = None, False, 0
        self.start_controllers()

    def start_controllers(self):
        """A new process: whatever controllers kept in memory is gone."""
        self.controllers = [
            JobSetController(self, self, self.gates),
            JobController(self, self, lambda: f"{next(self.suffixes):05}"),
            JobTtlController(self, self),
            TrackingController(self),
        ]

    # -- the clock and the reader that controllers are handed

    def now(self):
        return self.time

    async def get(self, kind, key):
        return self.kinds[kind].get(key)

    async def owned(self, kind, owner):
        uid, namespace = owner["metadata"].get("uid", ""), owner["metadata"]["namespace"]
        found = (d for k, d in sorted(self.kinds[kind].items()) if k.namespace == namespace)
        return [d for d in found if (controller_of(d) or {"uid": ""})["uid"] == uid]

    async def list(self, kind, select=None):
        return [d for k, d in sorted(self.kinds[kind].items()) if not select or k.namespace == select.namespace]

    # -- what a server does

    def write(self):
        if self.acting and self.crash_after is not None:
            if not self.crash_after:
                raise Crash
            self.crash_after -= 1
        self.writes += 1

    def put(self, kind, document):
        document = copy.deepcopy(document)
        document["metadata"]["resourceVersion"] = str(next(self.revision))
        self.kinds[kind][key_of(document)] = document
        return document

    def create(self, kind, document):
        self.write()
        key = key_of(document)
        if key in self.kinds[kind]:
            return
        if message := self.refuse(document):
            raise Forbidden(message)
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        metadata |= {"uid": f"u{next(self.uids)}", "creationTimestamp": stamp(self.time), "generation": 1}
        if kind is kinds.JOB:
            self._default_job(document)
        if kind is kinds.POD:
            document["status"] = {"phase": "Pending"}
        self.put(kind, document)

    def _default_job(self, job):
        spec, mark = job["spec"], {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
        spec.setdefault("parallelism", 1)
        if not spec.get("manualSelector"):
            spec["selector"] = {"matchLabels": mark}
        template = spec["template"]
        template["metadata"] = {**(template.get("metadata") or {})}
        template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **mark}
        job["status"] = {}

    def change(self, kind, key, change):
        """Edit a document in place of a user or a kubelet."""
        document = copy.deepcopy(self.kinds[kind][key])
        change(document)
        self.put(kind, document)
        self._collect(kind, key)

    def update(self, kind, document, part):
        self.write()
        old = self.kinds[kind].get(key_of(document))
        if old is None:
            return
        if self.acting and self.conflicts:
            self.conflicts -= 1
            raise Conflict("somebody else wrote first")
        if old["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise Conflict(f"{key_of(document)} was changed")
        if old.get(part) != document.get(part):
            self.put(kind, {**old, part: document.get(part)})

    def patch(self, write):
        self.write()
        if write.key not in self.kinds[write.kind]:
            return
        body = write.body["metadata"]
        if body.get("uid", uid := self.kinds[write.kind][write.key]["metadata"]["uid"]) != uid:
            return

        def change(document):
            metadata = document["metadata"]
            gone = body.get("$deleteFromPrimitiveList/finalizers", ())
            metadata["finalizers"] = [f for f in metadata.get("finalizers", ()) if f not in gone]
            metadata["finalizers"] += body.get("finalizers", [])
            owners = metadata.get("ownerReferences", [])
            for reference in body.get("ownerReferences", ()):
                if reference.get("$patch") == "delete":
                    owners = [owner for owner in owners if owner["uid"] != reference["uid"]]
                else:
                    owners = [*owners, reference]
            metadata["ownerReferences"] = owners
            if body.get("annotations"):
                metadata["annotations"] = {**metadata.get("annotations", {}), **body["annotations"]}

        self.change(write.kind, write.key, change)

    def delete(self, kind, key, uid="", propagation="", grace=None):
        self.write()
        document = self.kinds[kind].get(key)
        if document is None or (uid and document["metadata"]["uid"] != uid):
            return
        if propagation == "Foreground":
            self.change(kind, key, lambda d: d["metadata"].setdefault("finalizers", []).append("foregroundDeletion"))
        works = document.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        scheduled = document.get("spec", {}).get("nodeName") and works
        seconds = (grace if grace is not None else 30) if kind is kinds.POD and scheduled else 0

        def leave(d):
            d["metadata"]["deletionTimestamp"] = stamp(self.time + timedelta(seconds=seconds))
            d["metadata"]["deletionGracePeriodSeconds"] = seconds

        if not document["metadata"].get("deletionTimestamp") or grace == 0:
            self.change(kind, key, leave)

    def _collect(self, kind, key):
        """Remove what is leaving and held by nothing."""
        metadata = self.kinds[kind][key]["metadata"]
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held:
            del self.kinds[kind][key]

    def collect_garbage(self):
        """Children of what is gone, and of what goes in the foreground."""
        for kind in (kinds.JOB, kinds.POD, kinds.SERVICE, kinds.CLAIM):
            for key, document in list(self.kinds[kind].items()):
                owner = controller_of(document)
                if owner is None or document["metadata"].get("deletionTimestamp"):
                    continue
                parent = next((d for d in self._all() if d["metadata"].get("uid") == owner["uid"]), None)
                if parent is None or "foregroundDeletion" in parent["metadata"].get("finalizers", ()):
                    self.delete(kind, key, propagation="Foreground" if kind is kinds.JOB and parent else "")
        self._finish_foreground()

    def _finish_foreground(self):
        for kind in (kinds.JOB, kinds.JOB_SET):
            for key, document in list(self.kinds[kind].items()):
                finalizers = document["metadata"].get("finalizers", [])
                uid = document["metadata"]["uid"]
                children = [d for d in self._all() if (controller_of(d) or {}).get("uid") == uid]
                if "foregroundDeletion" in finalizers and not children:
                    self.change(kind, key, lambda d: d["metadata"].update(finalizers=[]))

    def _all(self):
        return [d for table in self.kinds.values() for d in table.values()]

    # -- the loop

    def carry_out(self, controller, plan):
        refusal = None
        for write in plan.create:
            try:
                self.create(write.kind, write.document)
            except Forbidden as error:
                refusal = error
                self.events += controller.refused(write, error)
        if refusal:
            raise refusal
        for write in plan.update:
            self.update(write.kind, write.document, "spec")
        for write in plan.patch:
            self.patch(write)
        for write in plan.delete:
            self.delete(write.kind, write.key, write.uid, write.propagation, write.grace)
        for write in plan.status:
            self.update(write.kind, write.document, "status")
        self.events += plan.events

    def settle(self, rounds=60):
        """Let every controller look at everything until nothing is written any more."""
        for _ in range(rounds):
            before = self.writes
            for controller in self.controllers:
                self._turn(controller)
            self.collect_garbage()
            if self.writes == before:
                return self
        raise AssertionError("the controllers do not come to rest")

    def _turn(self, controller):
        watched = [(watch, d) for watch in controller.watches for d in self.kinds[watch.kind].values()]
        keys = {key for watch, d in watched for key in watch.keys(d)}
        for key in sorted(keys):
            plan = finished(controller.reconcile(key))
            if plan.again:
                self.due[controller.name, key] = plan.again
            self.acting = True
            try:
                self.carry_out(controller, plan)
            except (Conflict, Forbidden):
                continue
            finally:
                self.acting = False

    # -- the hands of tests

    def add(self, kind, document):
        document.setdefault("apiVersion", kind.api_version)
        document.setdefault("kind", kind.kind)
        document["metadata"].setdefault("namespace", "ns")
        self.create(kind, document)
        return self

    def pass_time(self, seconds):
        self.time += timedelta(seconds=seconds)
        return self

    def edit(self, kind, name, *path, value):
        def change(document):
            for step in path[:-1]:
                document = document.setdefault(step, {}) if isinstance(step, str) else document[step]
            document[path[-1]] = value

        self.change(kind, Key("ns", name), change)
        return self

    def pods(self):
        return [pod for _, pod in sorted(self.kinds[kinds.POD].items())]

    def job(self, name="j"):
        return self.kinds[kinds.JOB].get(Key("ns", name))

    def jobset(self, name="js"):
        return self.kinds[kinds.JOB_SET].get(Key("ns", name))

    def _container(self, key):
        containers = self.kinds[kinds.POD][key]["spec"]["containers"]
        return containers[0]["name"] if containers else "main"

    def run_pod(self, key, ready=True, restarts=0):
        row = {"name": self._container(key), "restartCount": restarts, "state": {"running": {}}}
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(self.time)}
        self.change(
            kinds.POD,
            key,
            lambda d: (
                d["spec"].update(nodeName="n"),
                d["status"].update(phase="Running", containerStatuses=[row], conditions=[condition]),
            ),
        )

    def end_pod(self, key, code=0):
        ended = {"exitCode": code, "finishedAt": stamp(self.time)}
        row = {"name": self._container(key), "restartCount": 0, "state": {"terminated": ended}}
        phase = "Failed" if code else "Succeeded"
        self.change(
            kinds.POD,
            key,
            lambda d: (
                d["spec"].update(nodeName="n"),
                d["status"].update(phase=phase, containerStatuses=[row], conditions=[]),
            ),
        )

    def reap(self):
        """The kubelet ends every pod that was asked to leave."""
        for key, pod in list(self.kinds[kinds.POD].items()):
            if pod["metadata"].get("deletionTimestamp"):
                if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                    self.end_pod(key, 143)
                if key in self.kinds[kinds.POD]:
                    self.delete(kinds.POD, key, grace=0)
        return self

    def act(self, script):
        """A line of deeds: `j-0:run j-1:exit/3 reap +10`, each followed by rest."""
        for word in script.split():
            if word.startswith("+"):
                self.pass_time(int(word[1:]))
            elif word == "reap":
                self.reap()
            else:
                prefix, _, deed = word.partition(":")
                verb, _, number = deed.partition("/")
                for key in [k for k in sorted(self.kinds[kinds.POD]) if k.name.startswith(prefix)]:
                    self._deed(key, verb, int(number or 0))
            self.settle()
        return self

    def _deed(self, key, verb, number):
        pod = self.kinds[kinds.POD].get(key)
        if pod is None or pod["status"]["phase"] in ("Succeeded", "Failed"):
            return
        if verb == "delete":
            self.delete(kinds.POD, key)
        elif not pod["metadata"].get("deletionTimestamp"):
            {"run": lambda: self.run_pod(key, restarts=number), "exit": lambda: self.end_pod(key, number)}[verb]()


def job(name="j", **spec):
    template = {"spec": {"restartPolicy": spec.pop("restart", "Never"), "containers": [{"name": "main", "image": "x"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def indexed(count, **spec):
    return job(completions=count, parallelism=spec.pop("parallelism", count), completionMode="Indexed", **spec)


def jobset(entries, **spec):
    """`a:2x3` is an entry a of 2 Jobs with 3 pods each; `b:1x1<a` depends on a being ready, `<<` on its completion."""
    return {
        "metadata": {"name": "js"},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "replicatedJobs": [_entry(e) for e in entries.split()],
            **spec,
        },
    }


def _entry(text):
    text, _, dependency = text.partition("<")
    name, _, size = text.partition(":")
    replicas, _, pods = size.partition("x")
    template = indexed(int(pods or 1), backoffLimit=0)["spec"]
    entry = {"name": name, "replicas": int(replicas), "template": {"spec": template}}
    if dependency:
        status = "Complete" if dependency.startswith("<") else "Ready"
        entry["dependsOn"] = [{"name": dependency.lstrip("<"), "status": status}]
    return entry


COUNTS = ("active", "ready", "succeeded", "failed", "terminating", "completedIndexes", "failedIndexes")


def told(status):
    """A Job's status as one line."""
    words = [f"{key}={status[key]}" for key in COUNTS if status.get(key)]
    return " ".join([*words, *map(_said, status.get("conditions", ()))])


def _said(condition):
    if condition["type"] in ("Failed", "Complete"):
        return condition["reason"]
    return condition["type"] + ("" if condition["status"] == "True" else "=False")


def told_set(status):
    rows = [
        f"{r['name']}:a{r['active']}r{r['ready']}s{r['succeeded']}f{r['failed']}z{r['suspended']}"
        for r in status.get("replicatedJobsStatus", ())
    ]
    conditions = [f"{c['type']}={c['reason']}" for c in status.get("conditions", ()) if c["status"] == "True"]
    return " ".join([*rows, f"restarts={status.get('restarts')}", *conditions])
