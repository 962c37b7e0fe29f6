"""Any story of submissions, endings, losses and passes: no node is oversold, no gang is ever half placed."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.api import kinds, labels
from allaboard.api.documents import Key
from allaboard.api.meta import annotations_of, key_of
from allaboard.scheduling.binder import Binder
from allaboard.scheduling.loop import CYCLE, Scheduler
from allaboard.scheduling.snapshot import FOLLOWED, Snapshot
from allaboard.scheduling.telling import world_of
from allaboard.testing.clock import FakeClock

from .builders import OURS, World, finished, node, pod, pod_group

CORES = 8


class Story:
    """The real scheduler and the real binder; writes are carried out at once, as one process does."""

    def __init__(self):
        self.scheduler, self.binder = Scheduler(None, FakeClock(), OURS), Binder(None, FakeClock())
        self.world = World(self.scheduler, self.binder)
        self.scheduler.reader = self.binder.reader = self.world
        self.world.defaults()
        self.count = 0

    # --- what happens ---

    def submit(self, size, cpu):
        self.count += 1
        name = f"g{self.count}"
        self.world.put(kinds.POD_GROUP, pod_group(name, size))
        for index in range(size):
            self.world.put(kinds.POD, pod(f"{name}-{index}", said={labels.POD_GROUP: name}, cpu=str(cpu)))

    def end(self, which):
        """All pods of one gang that has its place succeed."""
        groups = sorted({group for group, _ in self._placed()})
        for group, document in self._placed():
            if groups and group == groups[which % len(groups)]:
                self.world.put(kinds.POD, {**document, "status": {"phase": "Succeeded"}})

    def add_node(self, which):
        self.world.put(kinds.NODE, node(f"n{which}", cpu=str(CORES)))

    def delete(self, which):
        """A user deletes one gang, group and pods."""
        groups = sorted(
            d["metadata"]["name"] for (kind, _), d in self.world.documents.items() if kind == kinds.POD_GROUP
        )
        if not groups:
            return
        name = groups[which % len(groups)]
        for (kind, _), document in list(self.world.documents.items()):
            mine = annotations_of(document).get(labels.POD_GROUP) == name or document["metadata"]["name"] == name
            if kind in (kinds.POD, kinds.POD_GROUP, kinds.BIND_REQUEST) and mine:
                self.world.drop(kind, document)

    def lose_node(self, which):
        """The machine is gone, and its pods with it."""
        name = f"n{which}"
        if (kinds.NODE, Key("", name)) not in self.world.documents:
            return
        self.world.drop(kinds.NODE, node(name))
        for _, document in self._placed():
            if document["spec"]["nodeName"] == name:
                self.world.put(kinds.POD, {**document, "status": {"phase": "Failed"}})

    def cycle(self, _):
        plan = finished(self.scheduler.reconcile(CYCLE))
        for group in plan.together:
            for document in group:
                self.world.put(kinds.BIND_REQUEST, {**document, "metadata": {**document["metadata"], "uid": "r"}})
        self._carry_out(plan)

    def bind(self, _):
        requests = [d for (kind, _), d in self.world.documents.items() if kind == kinds.BIND_REQUEST]
        for key in sorted({Key("default", annotations_of(d)[labels.POD_GROUP]) for d in requests}):
            self._carry_out(finished(self.binder.reconcile(key)))

    def _carry_out(self, plan):
        for patch in plan.patch:
            old = self.world.documents.get((patch.kind, patch.key))
            if old is not None and "status" in patch.body and patch.kind != kinds.POD:
                self.world.put(patch.kind, {**old, "status": {**old.get("status", {}), **patch.body["status"]}})
        for bind in plan.bind:
            old = self.world.documents[(kinds.POD, bind.pod)]
            self.world.put(kinds.POD, {**old, "spec": {**old["spec"], "nodeName": bind.node}})
        for removal in plan.delete:
            old = self.world.documents.get((removal.kind, removal.key))
            if old is not None:
                self.world.drop(removal.kind, old)

    # --- what must hold ---

    def _placed(self):
        for (kind, _), document in sorted(
            self.world.documents.items(), key=lambda item: (item[0][0].plural, item[0][1])
        ):
            over = document.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if kind == kinds.POD and document["spec"].get("nodeName") and not over:
                yield annotations_of(document)[labels.POD_GROUP], document

    def oversold(self):
        used = Counter()
        for _, document in self._placed():
            used[document["spec"]["nodeName"]] += int(document["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return {name: cores for name, cores in used.items() if cores > CORES}

    def half_placed(self):
        """Gangs of which some pods have a place and others wait."""
        placed = Counter(group for group, _ in self._placed())
        waiting = Counter(
            annotations_of(d)[labels.POD_GROUP]
            for (kind, _), d in self.world.documents.items()
            if kind == kinds.POD and not d["spec"].get("nodeName") and d["status"]["phase"] == "Pending"
        )
        return sorted(set(placed) & set(waiting))

    def fresh(self):
        snapshot = Snapshot(OURS)
        documents = sorted(self.world.documents.items(), key=lambda item: (str(item[0][0]), item[0][1]))
        for (kind, _), document in documents:
            if kind in FOLLOWED:
                snapshot.observe(kind, None, document)
        snapshot.flush(self.scheduler.clock.now().timestamp())
        return snapshot


def tasks(snapshot):
    gangs = world_of(snapshot.state).gangs
    return {task.name: (task.status.name, task.node) for gang in gangs for task in gang.tasks}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.tuples(st.integers(1, 4), st.integers(1, 4))),
        st.tuples(st.sampled_from(["cycle", "cycle", "bind", "bind"]), st.just((0,))),
        st.tuples(st.sampled_from(["end", "delete", "add_node", "lose_node"]), st.tuples(st.integers(0, 2))),
    ),
    max_size=30,
)


@settings(max_examples=120, deadline=None)
@given(steps)
def test_any_story(history):
    story = Story()
    story.add_node(0)
    for action, arguments in history:
        getattr(story, action)(*arguments)
        assert not story.oversold()
        if action == "bind":
            assert not story.half_placed(), "after a pass of the binder a gang is whole or not there"
    story.bind(0)
    story.scheduler.snapshot.flush(story.scheduler.clock.now().timestamp())
    assert tasks(story.scheduler.snapshot) == tasks(story.fresh())


def test_everything_runs_in_the_end_when_there_is_room():
    story = Story()
    for which in range(3):
        story.add_node(which)
    for size, cpu in ((2, 4), (3, 2), (1, 8)):
        story.submit(size, cpu)
    story.cycle(0)
    story.bind(0)
    assert Counter(group for group, _ in story._placed()) == {"g1": 2, "g2": 3, "g3": 1}
    assert not [key_of(d) for (kind, _), d in story.world.documents.items() if kind == kinds.BIND_REQUEST]
