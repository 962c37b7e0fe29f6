"""The 45 known defects of the reference (specification of the trainer, 8.1): each one named, none repeated."""

from datetime import timedelta

import pytest

from allaboard.api import crds, kinds
from allaboard.api.documents import Key
from allaboard.cluster.jsonpath import find
from allaboard.initializers import fetching
from allaboard.initializers import settings as initializer_settings
from allaboard.kube.plan import NOTHING
from allaboard.main.citizen import Citizen, Health
from allaboard.main.configuration import Post, configured
from allaboard.main.settings import Settings
from allaboard.sdk.home import Home
from allaboard.training import admission, config, lifecycle, runtimes
from allaboard.training import runtime as frozen_runtime
from allaboard.training.controller import TrainJobController
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS, PLUGINS
from allaboard.training.job import TrainJob
from tests.training.world import (
    ANCESTOR,
    NOW,
    build,
    condition,
    container,
    env,
    existing_job_set,
    hostfile,
    job_set,
    mpi_runtime,
    of_kind,
    patch,
    refusals,
    replicated,
    runtime,
    size,
    trainjob,
    tune_runtime,
)  # fmt: skip

CONFIGURATION = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"
SETTINGS = Settings(Home.default(), controllers=("trainjob",))
GPU = {"limits": {"nvidia.com/gpu": "4"}}


def decided(job, *, now=NOW, source=None, snapshot=None, job_set=None):
    world = lifecycle.World(TrainJob(job), job_set=job_set, snapshot=snapshot, runtime=source, facts=Facts())
    return lifecycle.decide(world, OURS, now)


def conditions(plan):
    return {c["type"]: (c["status"], c["reason"]) for c in plan.status[0].document["status"].get("conditions", [])}


def test_defect_1_the_state_column_shows_the_condition_that_holds():
    columns = crds.crd("trainjobs.trainer.kubeflow.org")["spec"]["versions"][0]["additionalPrinterColumns"]
    state = next(column for column in columns if column["name"] == "State")
    resumed = {"status": {"conditions": [condition("Suspended", "False")]}}
    ended = {"status": {"conditions": [condition("Complete"), condition("Suspended", "False")]}}
    assert [find(state["jsonPath"], job) for job in (resumed, ended)] == [[], ["Complete"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"trainer": {"numNodes": 2}}),
        ({"trainer": {}}, {}),
        ({"activeDeadlineSeconds": 5}, {}),
        ({}, {"initializer": {}}),
    ],
)
def test_defect_2_fixed_fields_are_neither_added_nor_removed(before, after):
    found = refusals(trainjob(**after), runtime(), old=trainjob(**before))
    assert found == [f"spec.{next(iter(before | after))}: {found[0].partition(': ')[2]}"]
    assert found[0].endswith("field is immutable")


@pytest.mark.parametrize("changed", [{"affinity": {"nodeAffinity": {}}}, {"volumes": [{"name": "v", "emptyDir": {}}]}])
def test_defect_3_what_a_jobset_cannot_take_any_more_is_refused_at_once(changed):
    old, new = trainjob(suspend=True), trainjob(suspend=True, runtimePatches=[patch(**changed)])
    found = refusals(new, runtime(), existing_job_set(suspend=True), old=old)
    assert [line.partition(":")[0] for line in found] == ["spec.runtimePatches"]
    assert "is fixed once the JobSet exists" in found[0]


def test_defect_4_an_unsupported_runtime_is_a_verdict():
    job = trainjob()
    job["spec"]["runtimeRef"]["kind"] = "Thing"
    plan = decided(job)
    assert conditions(plan) == {"Failed": ("True", "TrainingRuntimeNotSupported")}
    assert plan.again is None


def test_defect_5_a_deleted_runtime_does_not_lock_its_jobs():
    assert refusals(trainjob(suspend=True), old=trainjob(suspend=False)) == []


def test_defect_5_a_changed_runtime_does_not_either():
    job = trainjob(initializer={"dataset": {"storageUri": "hf://a/b"}}, runtime="torchtune-llama3.2-1b")
    snapshot = frozen_runtime.snapshot(TrainJob(job), tune_runtime())
    changed = {**runtime(), "metadata": {"name": "torchtune-llama3.2-1b"}}
    assert refusals({**job, "spec": {**job["spec"], "suspend": True}}, changed, snapshot, old=job) == []


def test_defect_6_an_init_container_patch_names_an_init_container():
    job = trainjob(runtimePatches=[patch(initContainers=[{"name": "node", "env": []}])])
    assert 'must name a container of replicatedJob "node"' in refusals(job, runtime())[0]


def test_defect_7_every_priority_class_is_looked_up():
    jobs = [replicated("a", None, priorityClassName="system-node-critical"), replicated(priorityClassName="ghost")]
    source = runtime(None, *jobs, podGroupPolicy={"volcano": {}})
    assert any('"ghost" doesn\'t exist' in line for line in refusals(trainjob(), source))


def test_defect_8_a_priority_class_is_read_without_a_cache_of_them():
    asked = []

    class Reader:
        async def get(self, kind, key):
            asked.append(kind)

    controller = TrainJobController(Reader(), None)
    assert kinds.PRIORITY_CLASS not in {watch.kind for watch in controller.watches}


def test_defect_9_both_kinds_of_runtime_are_checked_alike():
    bad = runtime(None, {**replicated(), "replicas": 2})
    for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
        causes = list(admission.runtime_problems({**bad, "kind": kind}))
        assert [cause.field for cause in causes] == ["spec.template.spec.replicatedJobs[0].replicas"]
    deprecated = {**runtime(labels={"trainer.kubeflow.org/support": "deprecated"}), "kind": "TrainingRuntime"}
    assert len(list(admission.runtime_warnings(deprecated, deprecated))) == 1


def test_defect_10_the_names_of_the_probes_are_where_they_answer():
    text = f"{CONFIGURATION}health: {{readinessEndpointName: ready, livenessEndpointName: alive}}"
    post = configured(Post("", ""), config.load(text))
    health = Health(Citizen(SETTINGS, None, None, post))
    assert [health._answer(path)[0] for path in ("/alive", "/ready", "/healthz", "/readyz")] == [200, 503, 404, 404]


def test_defect_11_the_number_of_workers_is_the_loops():
    text = f"{CONFIGURATION}controller: {{groupKindConcurrency: {{TrainJob.trainer.kubeflow.org: 5}}}}"
    citizen = Citizen(SETTINGS, None, None, configured(Post("", ""), config.load(text)))
    assert [loop.workers for loop in citizen.loops if loop.controller.name == "trainer"] == [5]


def test_defect_12_a_jobset_past_its_deadline_is_deleted_until_it_is_gone():
    job = trainjob(activeDeadlineSeconds=60)
    job["status"] = {"conditions": [condition("Failed", reason="DeadlineExceeded")]}
    assert [write.kind for write in decided(job, job_set=existing_job_set()).delete] == [kinds.JOB_SET]
    ended = existing_job_set(conditions=[condition("Failed")])
    assert decided(job, job_set=ended).delete == ()


def test_defect_13_same_named_jobs_of_two_namespaces_are_both_woken():
    controller = TrainJobController(None, None)
    for namespace in ("a", "b"):
        job = trainjob(suspend=True)
        job["metadata"] = {**job["metadata"], "namespace": namespace}
        controller.observe(kinds.TRAIN_JOB, None, job)
    keys = next(watch for watch in controller.watches if watch.kind is kinds.RUNTIME_CLASS).keys
    assert list(keys({"metadata": {"name": "gvisor"}})) == [Key("a", "run"), Key("b", "run")]


def test_defect_13_overhead_and_limit_defaults_count():
    source = runtime(None, replicated(runtimeClassName="gvisor"), podGroupPolicy={"coscheduling": {}})
    item = {"type": "Container", "defaultRequest": {"cpu": "1"}}
    facts = Facts(overheads={"gvisor": {"cpu": "250m"}}, limit_ranges=[{"spec": {"limits": [item]}}])
    group = of_kind(OURS.build(source, TrainJob(trainjob({"numNodes": 2})), facts), "PodGroup")
    assert group["spec"]["minResources"] == {"cpu": "2500m"}


def test_defect_14_claims_survive_the_trainjobs_resources():
    source = runtime(None, replicated(containers=[{"name": "node", "resources": {"claims": [{"name": "gpu"}]}}]))
    job = trainjob({"resourcesPerNode": {"requests": {"cpu": "1"}, "claims": [{"name": "net"}]}})
    assert container(job_set(source, job))["resources"]["claims"] == [{"name": "net"}, {"name": "gpu"}]


def test_defect_15_resources_reach_a_runtime_without_a_policy():
    built = job_set(runtime({}), trainjob({"resourcesPerNode": GPU}))
    assert container(built)["resources"] == GPU


def test_defect_16_limits_stand_for_missing_requests_in_a_gang():
    source = runtime(None, replicated(containers=[{"name": "node", "resources": GPU}]), podGroupPolicy={"volcano": {}})
    group = of_kind(build(source, trainjob({"numNodes": 3})), "PodGroup")
    assert group["spec"]["minResources"] == {"nvidia.com/gpu": "12"}


def test_defect_17_a_port_without_a_name_swallows_no_other():
    ports = [{"containerPort": 8080}, {"containerPort": 9090}, {"containerPort": 29500, "protocol": "UDP"}]
    built = job_set(runtime(None, replicated(containers=[{"name": "node", "ports": ports}])), trainjob({}))
    assert container(built)["ports"] == [*ports, {"containerPort": 29500}]


def test_defect_18_processes_follow_the_merged_resources():
    source = runtime(None, replicated(containers=[{"name": "node", "resources": GPU}]))
    built = job_set(source, trainjob({"resourcesPerNode": {"requests": {"memory": "1Gi"}}}))
    assert env(built)["PET_NPROC_PER_NODE"] == "auto"


def test_defect_19_the_image_reaches_mpi_workers_and_the_command_does_not():
    built = job_set(mpi_runtime(), trainjob({"numNodes": 3, "image": "mine:2", "command": ["mpirun", "x"]}))
    assert [container(built, job)["image"] for job in ("node", "launcher")] == ["mine:2", "mine:2"]
    assert container(built, "node")["command"] == ["/usr/sbin/sshd"]
    assert container(built, "launcher")["command"] == ["mpirun", "x"]


def test_defect_19_also_where_workers_carry_the_trainer_label():
    source = mpi_runtime()
    source["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": {ANCESTOR: "trainer"}}
    built = job_set(source, trainjob({"numNodes": 3, "command": ["mpirun"]}))
    assert container(built, "node")["command"] == ["/usr/sbin/sshd"]


def test_defect_20_a_name_that_jobset_would_refuse_is_refused_first():
    assert refusals(trainjob(name="a" * 48), runtime()) == []
    found = refusals(trainjob(name="a" * 49), runtime())
    assert found[0].startswith("metadata.name: ")
    assert found[0].endswith("must be no more than 63: shorten the TrainJob's name by 1")


@pytest.mark.parametrize(
    ("policy", "name"), [("torch", "PET_NNODES"), ("jax", "JAX_NUM_PROCESSES"), ("xgboost", "DMLC_NUM_WORKER")]
)
def test_defect_21_variables_are_set_without_a_trainer_block(policy, name):
    assert env(job_set(runtime({"numNodes": 3, policy: {}}), trainjob()))[name] == "3"


@pytest.mark.parametrize(
    ("policy", "name", "port"),
    [
        ("torch", "PET_MASTER_ADDR", ""),
        ("jax", "JAX_COORDINATOR_ADDRESS", ":29500"),
        ("xgboost", "DMLC_TRACKER_URI", ""),
    ],
)
def test_defect_22_the_meeting_point_follows_job_and_subdomain(policy, name, port):
    source = runtime({policy: {}}, replicated("worker"), template={"network": {"subdomain": "mesh"}})
    assert env(job_set(source, trainjob({})), "worker")[name] == f"run-worker-0-0.mesh{port}"


def test_defect_23_one_node_is_the_launcher_alone():
    objects = build(mpi_runtime(), trainjob({"numNodes": 1}))
    jobs = of_kind(objects, "JobSet")["spec"]["replicatedJobs"]
    assert [(job["name"], job.get("dependsOn")) for job in jobs] == [("launcher", None)]
    assert hostfile(objects) == "run-launcher-0-0.run slots=1\n"


def test_defect_24_nodes_of_the_policy_are_workers():
    built = job_set(mpi_runtime(as_node=False, nodes=4), trainjob())
    assert (size(built, "node"), size(built, "launcher")) == (4, 1)


def test_defect_25_flux_needs_neither_trainer_nor_counts():
    source = runtime({"flux": {}})
    assert size(job_set(source, trainjob())) == 1


def test_defect_26_a_flux_command_is_quoted():
    job = trainjob({"command": ["bash", "-c", 'echo "a b" && sleep 1'], "args": ["it's"]})
    words = container(job_set(runtime({"flux": {}}), job))["command"]
    assert words[2] == """bash -c 'echo "a b" && sleep 1' 'it'"'"'s'"""


def test_defect_27_flux_can_write_shared_memory():
    mounts = container(job_set(runtime({"flux": {}}), trainjob({})))["volumeMounts"]
    assert next(m for m in mounts if m["mountPath"] == "/dev/shm") == {"name": "shared-memory", "mountPath": "/dev/shm"}


def test_defect_28_flux_counts_devices_per_task():
    source = runtime({"flux": {"numProcPerNode": 2}})
    scripts = of_kind(build(source, trainjob({"resourcesPerNode": GPU})), "ConfigMap")["data"]
    assert "flags='-N 1 -n 2 -g 2'\n" in scripts["entrypoint.sh"]


def test_defect_29_the_flux_key_is_chance_and_written_once():
    source, job = runtime({"flux": {}}), trainjob({})
    secret = of_kind(build(source, job), "Secret")
    other = OURS.build(source, TrainJob(job), Facts(entropy=lambda size: b"\7" * size))
    assert of_kind(other, "Secret")["data"] != secret["data"]
    assert of_kind(build(source, job, secret), "Secret") is None


def test_defect_30_a_gang_holds_no_pod_its_predecessor_must_first_allow():
    source = {**tune_runtime(), "spec": {**tune_runtime()["spec"], "podGroupPolicy": {"coscheduling": {}}}}
    objects = build(source, trainjob({"numNodes": 2}, runtime="torchtune-llama3.2-1b"))
    assert of_kind(objects, "PodGroup")["spec"]["minMember"] == 2
    labelled = [
        j["name"]
        for j in of_kind(objects, "JobSet")["spec"]["replicatedJobs"]
        if "metadata" in j["template"]["spec"]["template"]
    ]
    assert labelled == ["node"]


def test_defect_30_of_an_mpi_job_the_workers_are_the_gang():
    source = {**mpi_runtime(), "spec": {**mpi_runtime()["spec"], "podGroupPolicy": {"coscheduling": {}}}}
    assert of_kind(build(source, trainjob({"numNodes": 4})), "PodGroup")["spec"]["minMember"] == 3
    assert of_kind(build(source, trainjob({"numNodes": 1})), "PodGroup")["spec"]["minMember"] == 1


def test_defect_31_a_gang_has_the_trainers_priority():
    first = replicated("prepare", None, priorityClassName="low")
    trainer = {**replicated(priorityClassName="high"), "dependsOn": [{"name": "prepare", "status": "Complete"}]}
    source = runtime(None, first, trainer, podGroupPolicy={"volcano": {}})
    assert of_kind(build(source, trainjob()), "PodGroup")["spec"]["priorityClassName"] == "high"


def test_defect_31_two_priorities_in_one_gang_are_refused():
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}}
        for n in ("low", "high")
    ]
    source = runtime(
        None,
        replicated("side", None, priorityClassName="low"),
        replicated(priorityClassName="high"),
        podGroupPolicy={"volcano": {}},
    )
    assert "have one priority, but its jobs name high, low" in refusals(trainjob(), source, *classes)[0]


def test_defect_32_default_patterns_apply_when_none_are_given():
    settings = initializer_settings.read("model", {"STORAGE_URI": "hf://a/b"})
    assert not settings.wants("pytorch_model.bin")
    assert settings.wants("model.safetensors")


@pytest.mark.parametrize("number", [33, 34, 35])
def test_defects_33_to_35_a_cache_is_refused_by_name(number):
    said = []
    assert fetching.main("dataset", {"STORAGE_URI": "cache://schema/table"}, said.append) == 1
    job = trainjob(initializer={"dataset": {"storageUri": "cache://schema/table"}}, runtime="torchtune-llama3.2-1b")
    assert "data caches are not supported" in refusals(job, tune_runtime())[0]
    assert all("cache" not in name for name in (d["metadata"]["name"] for d in runtimes.shipped_runtimes()))


@pytest.mark.parametrize("place", ["job_metadata", "pod_metadata"])
@pytest.mark.parametrize("member", ["name", "namespace", "finalizers"])
def test_defect_36_metadata_patches_describe_and_nothing_else(place, member):
    job = trainjob(runtimePatches=[patch(**{place: {member: ["x"]}})])
    assert f'must not set metadata "{member}"; a patch may set labels and annotations' in refusals(job, runtime())[0]


def test_defect_37_a_patch_that_cannot_be_merged_is_a_refusal():
    found = refusals(trainjob(runtimePatches=[patch(imagePullSecrets=[{}])]), runtime())
    assert found[0].startswith("spec.runtimePatches: ")
    assert 'imagePullSecrets: an item has no "name"' in found[0]


def test_defect_38_plugins_run_in_the_order_they_are_written_down():
    assert [plugin.name for plugin in PLUGINS] == [
        "plain", "torch", "mpi", "jax", "xgboost", "flux", "coscheduling", "volcano", "progress", "jobset"
    ]  # fmt: skip
    names = [
        entry["name"]
        for entry in container(job_set(runtime({"xgboost": {}}), trainjob({"env": [{"name": "Z", "value": "1"}]})))[
            "env"
        ]
    ]
    assert names == ["Z", "DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]


def test_defect_39_an_error_is_told_word_by_word():
    event = lifecycle.complaint(trainjob(), 'runtime "a%sb%d" not found')
    assert event.message == 'TrainJob resources reconciliation failed: runtime "a%sb%d" not found'
    assert len(lifecycle.complaint(trainjob(), "x" * 2000).message) < 1024


def test_defect_40_a_runtime_has_one_gang_policy():
    both = runtime(podGroupPolicy={"coscheduling": {}, "volcano": {}})
    assert [cause.field for cause in admission.runtime_problems(both)] == ["spec.podGroupPolicy"]


def test_defect_41_the_runtime_that_is_frozen_is_the_one_that_is_checked():
    job = trainjob({"env": [{"name": "PET_NNODES", "value": "9"}]})
    plan = decided(job, source=runtime())
    assert (plan.apply, plan.create) == ((), ())
    assert conditions(plan) == {"Failed": ("True", "Invalid")}


@pytest.mark.parametrize("change", [patch(job="ghost"), patch(containers=[{"name": "ghost"}])])
def test_defect_42_a_patch_names_what_the_runtime_has(change):
    assert (
        "did you mean" in refusals(trainjob(runtimePatches=[change]), runtime())[0]
        or "known: node" in refusals(trainjob(runtimePatches=[change]), runtime())[0]
    )


def test_defect_43_the_ancestor_label_is_protected():
    job = trainjob(runtimePatches=[patch(job_metadata={"labels": {ANCESTOR: "none"}})])
    assert f'must not change label "{ANCESTOR}"' in refusals(job, runtime())[0]


def test_defect_44_a_job_that_is_leaving_is_left_alone():
    job = trainjob()
    job["metadata"] = {**job["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}
    assert decided(job, source=runtime()) is NOTHING


def test_defect_45_past_the_deadline_nothing_is_built_again_and_counts_stay():
    job = trainjob(activeDeadlineSeconds=60)
    counts = [{"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]
    job["status"] = {"jobsStatus": counts}
    plan = decided(job, source=runtime(), now=NOW + timedelta(seconds=61))
    assert (plan.apply, plan.create) == ((), ())
    assert plan.status[0].document["status"]["jobsStatus"] == counts
    assert conditions(plan) == {"Failed": ("True", "DeadlineExceeded")}


def test_every_defect_has_its_test():
    tested = {name.split("_")[2] for name in globals() if name.startswith("test_defect_")} | {"33", "34", "35"}
    assert tested == {str(number) for number in range(1, 46)}
