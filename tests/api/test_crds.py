"""Our CustomResourceDefinitions: fresh from their sources, structural, and only ever wider than upstream's."""

import runpy
from pathlib import Path

import pytest

from allaboard.api import crds, kinds
from allaboard.cluster.kinds import structural
from allaboard.cluster.rules import from_crd

TOOLS = Path(__file__).parent.parent.parent / "tools" / "generate_crds.py"
FOLDER = Path(crds.__file__).parent


def test_every_file_is_a_fresh_expansion_of_its_source():
    generator = runpy.run_path(str(TOOLS))
    for source in generator["sources"]():
        want = generator["render"](generator["expand_file"](source))
        assert (FOLDER / f"{source.stem}.json").read_text() == want, f"{source.name}: run tools/generate_crds.py"


def test_every_source_has_a_file_and_every_file_a_source():
    sources = {path.stem for path in FOLDER.glob("*.yaml")} - {"fragments"}
    assert sources == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("crd", crds.documents(), ids=lambda crd: crd["metadata"]["name"])
def test_every_schema_is_structural(crd):
    for version in crd["spec"]["versions"]:
        assert structural.causes(version["schema"]["openAPIV3Schema"], "schema") == []


def test_every_kind_of_ours_is_defined_as_we_name_it():
    served = {rules.kind for crd in crds.documents() for rules in from_crd(crd)}
    wanted = {kind for kind in kinds.KNOWN if "." in kind.group and not kind.group.endswith("k8s.io")}
    assert wanted <= served


def spec_of(name):
    return crds.crd(name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


WIDER = {
    "a number of processes may be a word": (
        "trainjobs.trainer.kubeflow.org",
        ("trainer", "properties", "numProcPerNode", "x-kubernetes-int-or-string"),
        True,
    ),
    "torch too": (
        "trainingruntimes.trainer.kubeflow.org",
        ("mlPolicy", "properties", "torch", "properties", "numProcPerNode", "x-kubernetes-int-or-string"),
        True,
    ),
    "three families of MPI": (
        "clustertrainingruntimes.trainer.kubeflow.org",
        ("mlPolicy", "properties", "mpi", "properties", "mpiImplementation", "enum"),
        ["OpenMPI", "Intel", "MPICH", ""],
    ),
    "a finished job may go by itself": (
        "trainjobs.trainer.kubeflow.org",
        ("ttlSecondsAfterFinished",),
        {"type": "integer", "format": "int32", "minimum": 0},
    ),
}


@pytest.mark.parametrize(("name", "path", "want"), WIDER.values(), ids=WIDER)
def test_where_ours_are_wider(name, path, want):
    found = spec_of(name)
    for step in path:
        found = found[step]
    assert found == want


PROCESSES = {1: True, 0: False, "8": True, "auto": True, "gpu": True, "many": False, "0": False}


@pytest.mark.parametrize(("value", "fits"), PROCESSES.items(), ids=[repr(v) for v in PROCESSES])
def test_which_numbers_of_processes_fit(value, fits):
    rules = from_crd(crds.crd("trainjobs.trainer.kubeflow.org"))[0]
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"runtimeRef": {"name": "r"}, "trainer": {"numProcPerNode": value}},
    }
    found = rules.structure.validate(rules.structure.admit(job).document)
    assert (not found) is fits
