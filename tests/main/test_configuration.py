"""`aboard control --config`: every field of the file does something, or is refused by name."""

from datetime import timedelta

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import AboardError
from allaboard.kube.controller import WORKERS
from allaboard.main.configuration import Endpoint, post_from, read
from allaboard.training.config import BadConfiguration

HEAD = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"
NOTHING_SAID = {
    "controllers": None, "admission": None, "config": "", "leader_elect": None, "health_port": None,
    "webhook_port": None, "webhook_host": "127.0.0.1", "webhook_url": "", "webhook_service": "", "install": False,
    "verbose": False,
}  # fmt: skip


def post(tmp_path, text=None, **options):
    if text is not None:
        path = tmp_path / "config.yaml"
        path.write_text(HEAD + text)
        options["config"] = str(path)
    return post_from("kubeconfig", "", {**NOTHING_SAID, **options})


def test_without_a_file_nothing_listens_and_one_leads(tmp_path):
    found = post(tmp_path)
    assert (found.reception, found.health.port, found.metrics, found.pace) == (None, None, None, None)
    assert found.elect
    assert found.lease.lease == Key("kubeflow-system", "aboard-controllers")
    assert found.workers_of(kinds.TRAIN_JOB) == WORKERS


def test_an_empty_file_means_upstreams_defaults(tmp_path):
    found = post(tmp_path, "")
    assert (found.reception.port, found.reception.reports, found.reception.secret) == (
        9443, 10443, "kubeflow-trainer-webhook-cert",
    )  # fmt: skip
    assert found.reception.service == "kubeflow-system/kubeflow-trainer-controller-manager"
    assert found.health == Endpoint("0.0.0.0", 8081)
    assert found.metrics == Endpoint("0.0.0.0", 8443, secure=True)
    assert (found.elect, found.pace.qps, found.pace.burst) == (False, 50, 100)


FIELDS = {
    "webhook: {port: 9000, host: 10.0.0.1}": lambda p: (p.reception.port, p.reception.host) == (9000, "10.0.0.1"),
    "metrics: {bindAddress: '0'}": lambda p: p.metrics.port is None,
    "metrics: {bindAddress: '127.0.0.1:1', secureServing: false}": lambda p: p.metrics == Endpoint("127.0.0.1", 1),
    "health: {healthProbeBindAddress: ':9'}": lambda p: p.health.port == 9,
    "health: {readinessEndpointName: up, livenessEndpointName: there}": lambda p: p.probes == ("there", "up"),
    "leaderElection: {leaderElect: true}": lambda p: p.elect,
    "leaderElection: {resourceName: a, resourceNamespace: b}": lambda p: p.lease.lease == Key("b", "a"),
    "leaderElection: {leaseDuration: 1m30s}": lambda p: p.lease.term == timedelta(seconds=90),
    "leaderElection: {renewDeadline: 20s}": lambda p: p.lease.renew_before == timedelta(seconds=20),
    "leaderElection: {retryPeriod: 500ms}": lambda p: p.lease.ask_again == timedelta(seconds=0.5),
    "leaderElection: {resourceLock: leases}": lambda p: True,
    "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 3}}": lambda p: (
        p.workers_of(kinds.TRAIN_JOB) == 3 and p.workers_of(kinds.TRAINING_RUNTIME) == WORKERS
    ),
    "certManagement: {webhookServiceName: svc}": lambda p: p.reception.service == "kubeflow-system/svc",
    "certManagement: {webhookSecretName: cert}": lambda p: p.reception.secret == "cert",
    "clientConnection: {qps: 7, burst: 9}": lambda p: (p.pace.qps, p.pace.burst) == (7, 9),
    "statusServer: {qps: 3, burst: 4}": lambda p: (p.reception.pace.qps, p.reception.pace.burst) == (3, 4),
    "statusServer: {port: 77}": lambda p: p.reception.reports == 77,
    "featureGates: {TrainJobStatus: false}": lambda p: p.gates["TrainJobStatus"] is False,
    "tls: {minVersion: '1.3'}": lambda p: p.reception.tls.version == 0x0304,
    "tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}": lambda p: (
        p.reception.tls.ciphers == "ECDHE-RSA-AES128-GCM-SHA256"
    ),
}


@pytest.mark.parametrize("text", FIELDS)
def test_a_field_of_the_file_is_honoured(text, tmp_path):
    assert FIELDS[text](post(tmp_path, text))


REFUSED = {
    "certManagement: {enable: false}": "certManagement.enable: false is not supported; leave it true",
    "metrics: {auth: {enabled: true}}": "metrics.auth.enabled: true is not supported",
    "leaderElection: {resourceLock: endpoints}": '"endpoints" is not supported; must be leases',
    "leaderElection: {leaseDuration: soon}": '"soon" is no duration; write it like 15s or 1m30s',
    "health: {healthProbeBindAddress: here}": '"here" is no address; write it like :8081, or "0" for none',
    "webhook: {prot: 1}": 'unknown field "webhook.prot"; did you mean "port"?',
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_ignored_stops_the_start(text, tmp_path):
    with pytest.raises(BadConfiguration) as refusal:
        post(tmp_path, text)
    assert REFUSED[text] in str(refusal.value)


@pytest.mark.parametrize(("path", "words"), [("/nonexistent/c.yaml", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_says_why(path, words):
    with pytest.raises(BadConfiguration) as refusal:
        read(path)
    assert words in str(refusal.value)


def test_the_command_line_goes_before_the_file(tmp_path):
    found = post(
        tmp_path, "leaderElection: {leaderElect: true}", leader_elect=False, health_port=5, webhook_url="https://x"
    )
    assert (found.elect, found.health) == (False, Endpoint(port=5))
    assert (found.reception.port, found.reception.address) == (9443, "https://x")


def test_plugins_are_named_in_their_order(tmp_path):
    assert post(tmp_path, plugins="b,a").plugins == ("b", "a")


def test_hooks_are_reached_on_loopback_unless_told(tmp_path):
    assert post(tmp_path, webhook_port=4).reception.address == "https://127.0.0.1:4"
    behind = post(tmp_path, webhook_port=4, webhook_service="system/hooks:8443").reception
    assert (behind.address, behind.door(b"").port) == ("https://hooks.system.svc:8443", 8443)
    assert behind.names == ["127.0.0.1", "hooks.system.svc", "localhost"]
    with pytest.raises(AboardError, match="must be NAMESPACE/NAME"):
        post(tmp_path, webhook_port=4, webhook_service="hooks").reception.door(b"")
