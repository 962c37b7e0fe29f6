"""Discovery: the same facts group by group and all at once."""

from allaboard.api import crds, kinds
from allaboard.cluster import discovery
from allaboard.cluster.kinds import BUILTIN, rules_for
from allaboard.cluster.rules import from_crd

SERVED = (*BUILTIN, *(rules for crd in crds.documents() for rules in from_crd(crd)))


def test_the_stable_and_the_new_come_first():
    versions = discovery.versions_of(SERVED, "kubeflow.org")
    assert versions == ["v1", "v2beta1"]
    assert discovery.versions_of(SERVED, "scheduling.run.ai") == ["v2", "v2alpha2", "v1alpha2"]


def test_the_core_group_lists_its_resources_with_their_doors():
    body = discovery.resource_list(SERVED, "v1")
    names = {entry["name"]: entry for entry in body["resources"]}
    assert "apiVersion" not in body
    assert names["pods/eviction"]["group"] == "policy"
    assert names["configmaps"]["shortNames"] == ["cm"]
    assert names["configmaps"]["storageVersionHash"] == "qFsyl6wFWjQ="
    assert "storageVersionHash" not in names["bindings"]


def test_a_custom_resource_is_listed_like_any_other():
    names = [e["name"] for e in discovery.resource_list(SERVED, "jobset.x-k8s.io/v1alpha2")["resources"]]
    assert names == ["jobsets", "jobsets/status"]


def test_both_groups_of_events_share_their_stored_form():
    assert discovery.storage_hash(rules_for(kinds.EVENT)) == discovery.storage_hash(rules_for(kinds.EVENT_V1))


def test_all_at_once_says_what_group_by_group_says():
    groups = {group["name"] for group in discovery.groups(SERVED)["groups"]}
    items = discovery.aggregated(SERVED, core=False)["items"]
    assert {item["metadata"]["name"] for item in items} == groups
    for item in items:
        for version in item["versions"]:
            listed = discovery.resource_list(SERVED, f"{item['metadata']['name']}/{version['version']}")["resources"]
            main = [entry["name"] for entry in listed if "/" not in entry["name"]]
            assert [entry["resource"] for entry in version["resources"]] == main


def test_the_core_group_stands_alone():
    items = discovery.aggregated(SERVED, core=True)["items"]
    assert [item["metadata"] for item in items] == [{}]
