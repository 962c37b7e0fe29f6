"""Every label and annotation key that more than one room reads or writes, once."""

# Ours: nothing upstream writes lives outside these (ruling 7).
ABOARD = "aboard.dev/"

# JobSet, on Jobs and Pods.
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"

# batch/v1 Job, on Pods.
JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"

# Trainer.
TRAIN_JOB_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"

# Gangs: what is written and what is read (ruling 8).
POD_GROUP = "pod-group-name"
SUB_GROUP = "kai.scheduler/subgroup-name"
POD_GROUP_COSCHEDULING = "scheduling.x-k8s.io/pod-group"
POD_GROUP_VOLCANO = "scheduling.k8s.io/group-name"
POD_GROUP_SEED = "pod-group.scheduling.x-k8s.io/name"
QUEUE = "kai.scheduler/queue"

# KAI: what a workload says about its gang, and what the scheduler says back.
PREEMPTIBILITY = "kai.scheduler/preemptibility"
NODE_POOL = "kai.scheduler/node-pool"
PRIORITY_CLASS = "priorityClassName"
PROJECT = "project"
USER = "user"
TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
TOP_OWNER = "kai.scheduler/top-owner-metadata"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
LAST_START = "kai.scheduler/last-start-timestamp"
SELECTED_NODE = "selected-node"
RECEIVED_TYPE = "received-resource-type"
GPU_GROUP = "runai-gpu-group"
GPU_FRACTION = "gpu-fraction"
GPU_MEMORY = "gpu-memory"
GPU_FRACTION_DEVICES = "gpu-fraction-num-devices"

# What went wrong, kept on Jobs and JobSets as a JSON list, the first failure first.
FAILURES = ABOARD + "failures"
# The last lines a failed container wrote, on its Pod (the node agent writes it, Jobs keep it).
LAST_LINES = ABOARD + "last-lines"
# When our scheduler took a Pod off its node (no failure of its own).
EVICTED = ABOARD + "evicted"
QUEUE_CLOSED = ABOARD + "closed"  # on a Queue: what runs goes on, nothing starts
POLICY = ABOARD + "policy"  # on the SchedulingShard: default or kai
FEWEST_VICTIMS = ABOARD + "fewest-victims"
CHECK = ABOARD + "check"  # a new value asks the scheduler to compare its state with one built anew
