"""A story is lines of text; it is told to two control planes at once, and after every line both must look alike.

    job j {parallelism: 2}         create a Job; the words in braces are its spec (`cron c {…}` likewise, each minute)
    jobset s {jobs: {w: {replicas: 2}}}          its replicated Jobs by name
    runtime r {numNodes: 2}        and its policy; `train t {…}` creates a TrainJob of it
    pod p {labels: {a: b}}         create a pod of nobody's; the words are its metadata
    set job j {parallelism: 1}     change its spec; `patch job j {…}` anything, `patch job/status j {…}` its status
    delete job j {propagationPolicy: Orphan}     with options; `delete pod j:0` deletes a pod of j
    run j, run j:0                 bind and start the pods of a Job that wait, or one of them: an index, else by age
    end j:0 1 {reason: Evicted}    such pods end with this code; the words go into their status
    reap j                         a kubelet has stopped what is being deleted
    wait 3                         seconds pass; `minute`: until the next minute has begun
    end j:0 1; end j:1 0           two at once: nobody looks between them

Names may be patterns (`c-*`). What cannot be the same twice is told by its shape (`referee.py`).
"""

import fnmatch
import json
import re
import threading
import time
from collections import Counter

import yaml

from .referee import RANDOM, TIME, UID, Side, differences

PATHS = {
    "jobset": "apis/jobset.x-k8s.io/v1alpha2:jobsets", "train": "apis/trainer.kubeflow.org/v1alpha1:trainjobs",
    "runtime": "apis/trainer.kubeflow.org/v1alpha1:trainingruntimes",
    "job": "apis/batch/v1:jobs", "cron": "apis/batch/v1:cronjobs", "pod": "api/v1:pods", "event": "api/v1:events",
    "quota": "api/v1:resourcequotas",
}  # fmt: skip
OURS = re.compile(r"^aboard\.dev/")
EXACT = {"lastScheduleTime", "batch.kubernetes.io/cronjob-scheduled-timestamp"}  # both have the same clock
BATCH = re.compile(r"(Cron)?Job ")  # upstream's JobSet and Trainer tell the same again by another event
UNORDERED = {"conditions", "finalizers", "replicatedJobsStatus"}
QUIET, PATIENCE = 1.6, 12.0  # seconds: upstream's Job controller gathers news for one


class Lookout:
    """Everything one plane has, looked at again and again for all stories together."""

    def __init__(self, server):
        self.server, self.seen, self.began, self.over = server, {}, 0.0, False
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        side = Side(self.server)
        while not self.over:
            began, seen = time.monotonic(), {}
            for kind, path in PATHS.items():
                group, plural = path.split(":")
                answer = side.ask("GET", f"/{group}/{plural}")  # not every plane has every kind
                for each in answer.body["items"] if answer.code == 200 else ():
                    seen.setdefault(each["metadata"]["namespace"], {}).setdefault(kind, []).append(each)
            self.seen, self.began = seen, began
            time.sleep(0.25)

    def look(self, namespace, since):
        """A namespace as it was found by a look that began after this moment."""
        while self.began < since and self.thread.is_alive():
            time.sleep(0.05)
        return self.seen.get(namespace, {})


class Told:
    """One plane while a story is told to it."""

    def __init__(self, lookout, namespace):
        self.lookout, self.namespace, self.side = lookout, namespace, Side(lookout.server)
        self.pokes = 0

    def prepare(self):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.side.ask("POST", "/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        while self.side.ask("GET", account).code != 200:
            time.sleep(0.1)

    def all(self, kind):
        return self.side.ask("GET", self.path(kind)).body["items"]

    def path(self, kind, name="", part=""):
        group, plural = PATHS[kind].split(":")
        return "/".join(filter(None, (f"/{group}/namespaces/{self.namespace}/{plural}", name, part)))

    # --- a user ---

    def job(self, name, spec):
        return self._make("job", "Job", name, job_spec(spec))

    def cron(self, name, spec):
        template = spec.pop("jobTemplate", {})
        template = {**template, "spec": job_spec(template.get("spec") or {})}
        return self._make("cron", "CronJob", name, {"schedule": "* * * * *", "jobTemplate": template, **spec})

    def jobset(self, name, spec):
        jobs = [
            {"name": each, "replicas": words.pop("replicas", 1), "dependsOn": words.pop("dependsOn", None)}
            | {"template": {"spec": job_spec(words)}}
            for each, words in spec.pop("jobs").items()
        ]
        return self._make("jobset", "JobSet", name, {"replicatedJobs": jobs, **spec})

    def runtime(self, name, policy):
        metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
        pod = {"containers": [{"name": "node", "image": "i"}]}
        template = {"metadata": metadata, "spec": job_spec({"pod": pod})}
        jobs = [{"name": "node", "template": template}]
        spec = {"mlPolicy": policy or {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}}
        return self._make("runtime", "TrainingRuntime", name, spec)

    def train(self, name, spec):
        return self._make("train", "TrainJob", name, {"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}, **spec})

    def _make(self, kind, word, name, spec):
        metadata = {"name": name, **spec.pop("metadata", {})}
        group = PATHS[kind].partition(":")[0].removeprefix("apis/")
        document = {"apiVersion": group, "kind": word, "metadata": metadata, "spec": spec}
        return self.side.ask("POST", self.path(kind), document)

    def pod(self, name, words):
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **words}, "spec": spec}
        return self.side.ask("POST", self.path("pod"), document)

    def quota(self, name, hard):
        document = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}
        return self.side.ask("POST", self.path("quota"), document)

    def patch(self, what, pattern, body):
        kind, _, part = what.partition("/")
        media = "application/merge-patch+json"
        answer = None
        for name in self._names(kind, pattern):
            answer = self.side.ask("PATCH", self.path(kind, name, part), self._filled(body), media)
        return answer

    def set(self, kind, pattern, words):
        return self.patch(kind, pattern, {"spec": words})

    def poke(self, name, _words):
        self.pokes += 1
        return self.patch("cron", name, {"metadata": {"labels": {"poked": str(self.pokes)}}})

    def due(self, name, _words):
        return self.patch("cron/status", name, {"status": {"lastScheduleTime": "2025-06-01T00:00:00Z"}})

    def _filled(self, body):
        """With the uid of a CronJob or Job where a story says `uid of c`."""
        known = {
            each["metadata"]["name"]: each["metadata"]["uid"] for kind in ("cron", "job") for each in self.all(kind)
        }
        return json.loads(re.sub(r"uid of ([\w-]+)", lambda found: known[found[1]], json.dumps(body)))

    def delete(self, kind, pattern, words):
        answer = None
        for name in self._names(kind, pattern):
            answer = self.side.ask("DELETE", self.path(kind, name), words or None)
        return answer

    def _names(self, kind, pattern):
        if kind == "pod" and ":" in pattern:
            return [each["metadata"]["name"] for each in self._pods(pattern, lambda _pod: True)]
        return [name for each in self.all(kind) if fnmatch.fnmatch(name := each["metadata"]["name"], pattern)]

    # --- a scheduler and a kubelet ---

    def run(self, which, words):
        for pod in self._pods(which, is_live):
            self._bind(pod)
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now()}
            self._say(pod, {"phase": "Running", "startTime": now(), "conditions": [ready], **words})

    def end(self, which, code, words):
        for pod in self._pods(which, is_live):
            self._bind(pod)
            self._say(pod, {**ended(pod, int(code)), **words})

    def reap(self, which, words):
        for pod in self._pods(which, lambda pod: pod["metadata"].get("deletionTimestamp")):
            if pod["status"]["phase"] in ("Pending", "Running"):
                self._say(pod, {**ended(pod, 143), **words})
            path = self.path("pod", pod["metadata"]["name"])
            self.side.ask("DELETE", path, {"gracePeriodSeconds": 0})

    def _bind(self, pod):
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            self.side.ask("POST", self.path("pod", pod["metadata"]["name"], "binding"), body)

    def _say(self, pod, status):
        path = self.path("pod", pod["metadata"]["name"], "status")
        answer = self.side.ask("PATCH", path, {"status": status}, "application/merge-patch+json")
        assert answer.code == 200, answer

    def _pods(self, which, fits):
        """Pods of the Jobs with such names; after a colon, one of them by its index or, without any, its age."""
        pattern, _, number = which.partition(":")
        found = [pod for pod in self.all("pod") if fits(pod) and fnmatch.fnmatch(job_of(pod), pattern)]
        found.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        if not number:
            return found
        indexed = [pod for pod in found if index_of(pod) == number]
        return indexed or ([] if any(map(index_of, found)) else found[int(number) : int(number) + 1])

    # --- what there is to see ---

    def state(self, since):
        """Everything by its name; pods, whose names are random, by what became of them; each event as a line."""
        seen, state = self.lookout.look(self.namespace, since), {}
        for kind in ("train", "jobset", "cron", "job", "pod"):
            for document in sorted(map(known, seen.get(kind, ())), key=lambda each: json.dumps(each, sort_keys=True)):
                name = called(kind, document)
                state[f"{name} #{sum(each.startswith(f'{name} #') for each in state)}"] = document
        events = Counter(map(said, seen.get("event", ())))
        return state | {line: number if BATCH.match(line) else 1 for line, number in events.items()}


def called(kind, document):
    metadata = document["metadata"]
    leaving = " leaving" if "deletionTimestamp" in metadata else ""
    if kind != "pod":
        return f"{kind} {metadata['name']}{leaving}"
    index, phase = index_of(document), document["status"].get("phase")
    return f"pod {job_of(document)}{index and ':'}{index} {phase}{leaving}"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def job_spec(words):
    """A Job's spec; `pod` are words for the spec of its pods, `marks` for their metadata."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **words.pop("pod", {})}
    return {"template": {"metadata": words.pop("marks", {}), "spec": pod}, **words}


def is_live(pod):
    return pod["status"].get("phase") in ("Pending", "Running") and not pod["metadata"].get("deletionTimestamp")


def job_of(pod):
    return next(
        (owner["name"] for owner in pod["metadata"].get("ownerReferences") or ()), pod["metadata"].get("name", "")
    )


def index_of(pod):
    return (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")


def ended(pod, code):
    """How a kubelet tells that the containers of a pod came to their end."""
    state = {"terminated": {"exitCode": code, "startedAt": now(), "finishedAt": now()}}
    row = {"image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state, "lastState": {}}
    rows = [{"name": each["name"], **row} for each in pod["spec"]["containers"]]
    return {"phase": "Failed" if code else "Succeeded", "startTime": now(), "containerStatuses": rows, "conditions": []}


def shape(text):
    for pattern, word in ((UID, "UID"), (TIME, "TIME"), (RANDOM, "RANDOM")):
        text = pattern.sub(word, text)
    return text


def known(value, field=""):
    """What a document says, without what is different every time or only ours (ruling 7)."""
    if isinstance(value, dict):
        skipped = {"resourceVersion", "managedFields", "aboard", "uid", "name" if "generateName" in value else ""}
        kept = {key: known(each, key) for key, each in value.items() if key not in skipped and not OURS.match(key)}
        return {key: each for key, each in kept.items() if key != "annotations" or each}
    if isinstance(value, list):
        rows = [known(each) for each in value]
        return sorted(rows, key=named) if field in UNORDERED else rows
    return shape(value) if isinstance(value, str) and field not in EXACT else value


def named(row):
    return row.get("type") or row.get("name") if isinstance(row, dict) else row


def said(event):
    """One line; how often it was said is told where many were combined, else it depends on who looked when."""
    about = event["involvedObject"]
    often = f" ({event['count']} times)" if event["message"].startswith("(combined") else ""
    return shape(f"{about['kind']} {about['name']} {event['type']} {event['reason']}: {event['message']}{often}")


def read(path):
    """The stories of a file: a title, then its lines, indented."""
    stories, title = {}, ""
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            stories[title].append(line.strip())
        elif line and not line.startswith("#"):
            title = line
            assert title not in stories
            stories[title] = []
    return stories


def tell(story, namespace, lookouts):
    """Tell it line by line; what differed, each difference with the line after which it was seen first."""
    planes, found, told = [Told(lookout, namespace) for lookout in lookouts], [], set()
    for plane in planes:
        plane.prepare()
    for number, line in enumerate(story, 1):
        _keep_clear_of_the_minute()
        answers = [_do(planes, step) for step in line.split("; ")]
        lines = [f"answer{each}" for pair in answers for each in differences(*pair)] + _compare(planes)
        found += [f"{number} {line}: {each}" for each in lines if each not in told]
        told |= set(lines)
    return found


def _do(planes, line):
    text, brace, words = line.partition(" {")
    verb, *rest = text.split()
    words = yaml.safe_load("{" + words) if brace else {}
    if verb in ("wait", "minute"):
        time.sleep(float(rest[0]) if rest else 63 - time.time() % 60)
        for plane in planes:
            plane.side.line = None  # a line on which nobody speaks for so long is hung up
    else:
        answers = [getattr(plane, verb)(*rest, json.loads(json.dumps(words))) for plane in planes]
        return [answer and (answer.code, answer.body.get("reason")) for answer in answers]
    return None, None


def _keep_clear_of_the_minute():
    """A CronJob that is made before it here and after it there is another story."""
    if time.time() % 60 > 55:
        time.sleep(63 - time.time() % 60)


def _compare(planes):
    """Where two planes differ once both had time; they must be alike for a while."""
    began = same = time.monotonic()
    while True:
        moment = time.monotonic()
        states = [plane.state(moment) for plane in planes]
        if found := differences(*states):
            same = time.monotonic()
        if moment - same > QUIET or (found and moment - began > PATIENCE):
            return found
        time.sleep(0.2)
