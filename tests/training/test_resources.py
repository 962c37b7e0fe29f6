"""What containers and pods ask for, counted."""

import pytest

from allaboard.api.quantity import resource_list
from allaboard.training.resources import cpu_count, gpu_count, merge, pod_requests, reserved


def requests(**amounts):
    return {"resources": {"requests": {name.replace("_", "."): amount for name, amount in amounts.items()}}}


GPUS = {
    "requests before limits": ({"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "4"}}, 2),
    "limits where requests are none": ({"requests": {"nvidia.com/gpu": "0"}, "limits": {"nvidia.com/gpu": "4"}}, 4),
    "any vendor, any spelling": ({"limits": {"example.com/GPU": "3"}}, 3),
    "a fraction counts whole": ({"limits": {"example.com/gpu": "1500m"}}, 2),
    "slices are counted together": ({"limits": {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-2g.10gb": "1"}}, 3),
    "memory of a GPU is no GPU": ({"limits": {"volcano.sh/gpu-memory": "4096", "nvidia.com/gpu": "1"}}, 1),
    "a TPU is none": ({"limits": {"google.com/tpu": "4"}}, 0),
    "nothing": ({}, 0),
}


@pytest.mark.parametrize(("requirements", "want"), GPUS.values(), ids=GPUS)
def test_gpus(requirements, want):
    assert gpu_count(requirements) == want


CPUS = {
    "the larger side": ({"requests": {"cpu": "2"}, "limits": {"cpu": "7500m"}}, 8),
    "rounded up": ({"requests": {"cpu": "1n"}}, 1),
    "nothing": ({}, 0),
}


@pytest.mark.parametrize(("requirements", "want"), CPUS.values(), ids=CPUS)
def test_cpus(requirements, want):
    assert cpu_count(requirements) == want


def test_merging_keeps_what_is_not_overridden():
    base = {"limits": {"cpu": "8", "memory": "1Gi"}, "claims": [{"name": "a"}]}
    assert merge(base, {"limits": {"cpu": 4}, "requests": {"cpu": "1"}}) == {
        "limits": {"cpu": "4", "memory": "1Gi"},
        "requests": {"cpu": "1"},
        "claims": [{"name": "a"}],
    }


PODS = {
    "containers are summed": ({"containers": [requests(cpu="1"), requests(cpu="500m")]}, {"cpu": "1500m"}),
    "an init container that asks for more decides": (
        {"containers": [requests(cpu="1")], "initContainers": [requests(cpu="4")]},
        {"cpu": "4"},
    ),
    "a sidecar runs beside": (
        {"containers": [requests(cpu="1")], "initContainers": [{**requests(cpu="1"), "restartPolicy": "Always"}]},
        {"cpu": "2"},
    ),
    "overhead is added": ({"containers": [requests(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": "1250m"}),
    "the pod's own word replaces CPU": ({"containers": [requests(cpu="1")], **requests(cpu="3")}, {"cpu": "3"}),
}


@pytest.mark.parametrize(("spec", "want"), PODS.values(), ids=PODS)
def test_a_pods_requests(spec, want):
    assert resource_list(pod_requests(spec)) == want


def test_limits_stand_for_requests_that_were_left_out():
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "1"}}}]}
    assert resource_list(reserved(spec)) == {"nvidia.com/gpu": "2", "cpu": "1"}
    assert resource_list(pod_requests(spec)) == {"cpu": "1"}
