"""`aboard lint` and `aboard render`: what can be known about files without a plane."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from allaboard.cli.lint import command as lint
from allaboard.cli.render import command as render

GOOD = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: mnist
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 2
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "job.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_good_file_has_nothing_to_say(file):
    result = CliRunner().invoke(lint, [file(GOOD)])
    assert (result.exit_code, result.output) == (0, "")


def test_a_finding_has_line_and_column_and_the_nearest_name(file):
    path = file(GOOD.replace("numNodes", "numNode"))
    result = CliRunner().invoke(lint, [path])
    assert result.exit_code == 1
    assert result.output == (
        f'{path}:9:5: error: spec.trainer.numNode: unknown field "spec.trainer.numNode"; did you mean "numNodes"?\n'
    )


def test_outdated_fields_are_rewritten(file):
    path = file(
        GOOD + "  podTemplateOverrides:\n  - targetJobs: [{name: node}]\n    spec: {serviceAccountName: robot}\n"
    )
    assert CliRunner().invoke(lint, [path]).exit_code == 1
    assert CliRunner().invoke(lint, ["--fix", path]).exit_code == 0
    assert "podTemplateOverrides" not in yaml.safe_load(Path(path).read_text())["spec"]
    before = Path(path).read_text()
    CliRunner().invoke(lint, ["--fix", path])
    assert Path(path).read_text() == before


def test_rendering_prints_the_objects(file):
    result = CliRunner().invoke(render, ["-f", file(GOOD)])
    kinds = [document["kind"] for document in yaml.safe_load_all(result.output)]
    assert (result.exit_code, kinds) == (0, ["JobSet"])
    assert "#" not in result.output


def test_explaining_names_an_author_on_every_line_with_a_value(file):
    result = CliRunner().invoke(render, ["-f", file(GOOD), "--explain"])
    silent = [line for line in result.output.splitlines() if "#" not in line and not line.rstrip().endswith(":")]
    assert (result.exit_code, silent) == (0, [])
    assert "parallelism: 2" in result.output


def test_keys_are_not_shown(file):
    result = CliRunner().invoke(render, ["-f", file(GOOD.replace("torch-distributed", "mpi-distributed"))])
    secret = next(document for document in yaml.safe_load_all(result.output) if document["kind"] == "Secret")
    assert set(secret["data"].values()) == {"<generated>"}


BAD = {
    "no TrainJob": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "there is no TrainJob to render"),
    "an unknown runtime": (GOOD.replace("torch-d", "torch-"), 'did you mean "torch-distributed"?'),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_rendered_is_said(file, text, words):
    result = CliRunner().invoke(render, ["-f", file(text)])
    assert words in str(result.exception)


RESOURCES = "    resourcesPerNode:\n      {}\n"
PODS = {
    "a device with its limit": ("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1, cpu: 1}}", ""),
    "a device without a limit": (
        "{requests: {nvidia.com/gpu: 1}}",
        "spec.template.spec.containers[0].resources.limits: Required value: "
        "Limit must be set for non overcommitable resources",
    ),
    "more asked for than allowed": (
        "{requests: {cpu: 4}, limits: {cpu: 2}}",
        'spec.template.spec.containers[0].resources.requests: Invalid value: "4": '
        "must be less than or equal to cpu limit of 2",
    ),
}


@pytest.mark.parametrize(("resources", "words"), PODS.values(), ids=PODS)
def test_a_job_whose_pods_could_never_be_made_is_found_out(file, resources, words):
    path = file(GOOD + RESOURCES.format(resources))
    result = CliRunner().invoke(lint, [path])
    said = f'{path}:5:1: error: spec: its Job "mnist-node-0" could not be made: {words}\n' if words else ""
    assert result.output == said
