"""What holds for every TrainJob and runtime: counts agree, inputs stay, the schema takes what is built."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.api import kinds
from allaboard.training.render import structure, with_defaults
from tests.training.world import build, container, env, of_kind, replicated, runtime, trainjob

AMOUNTS = st.sampled_from(["1", "2", "500m", "2.5", "8"])
REQUIREMENTS = st.fixed_dictionaries(
    {},
    optional={
        side: st.dictionaries(
            st.sampled_from(["cpu", "nvidia.com/gpu", "memory", "nvidia.com/mig-1g.5gb"]), AMOUNTS, max_size=3
        )
        for side in ("limits", "requests")
    },
)
NAMES = st.sampled_from(["A", "B", "LR"])
ENV = st.lists(st.builds(lambda name: {"name": name, "value": "1"}, NAMES), max_size=3, unique_by=lambda e: e["name"])
TRAINER = st.fixed_dictionaries(
    {},
    optional={
        "numNodes": st.integers(1, 50),
        "numProcPerNode": st.sampled_from([1, 3, "2", "auto", "cpu", "gpu"]),
        "image": st.just("mine:1"),
        "command": st.just(["run"]),
        "args": st.lists(st.just("x"), max_size=2),
        "env": ENV,
        "resourcesPerNode": REQUIREMENTS,
    },
)
POLICY = st.sampled_from([{"torch": {}}, {"jax": {}}, {"xgboost": {}}, {"flux": {}}, {}])
GANG = st.sampled_from([{}, {"coscheduling": {}}, {"volcano": {}}])


@settings(max_examples=120, deadline=None)
@given(st.one_of(st.none(), TRAINER), POLICY, GANG, REQUIREMENTS)
def test_every_build_keeps_these(trainer, policy, gang, own):
    source = runtime(
        {"numNodes": 2, **policy}, replicated(containers=[{"name": "node", "image": "i", "resources": own}])
    )
    source["spec"]["podGroupPolicy"] = gang
    source, job = with_defaults(source), with_defaults(trainjob(trainer))
    before = copy.deepcopy((source, job))
    objects = build(source, job)
    assert (source, job) == before
    assert objects == build(source, job)
    jobset = of_kind(objects, "JobSet")
    assert structure(kinds.JOB_SET).validate(structure(kinds.JOB_SET).default(jobset)) == []
    nodes = (trainer or {}).get("numNodes", 2)
    spec = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert spec["parallelism"] == spec["completions"] == nodes
    if gang:
        assert of_kind(objects, "PodGroup")["spec"]["minMember"] == nodes
    names = [entry["name"] for entry in container(jobset).get("env") or []]
    assert len(names) == len(set(names))
    assert {entry["name"] for entry in (trainer or {}).get("env") or []} <= set(names)
    if "torch" in policy:
        assert env(jobset)["PET_NNODES"] == str(nodes)
