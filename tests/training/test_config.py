"""The configuration file: strict, complete, and refused with the right name."""

import pytest

from allaboard.training import config, tls

HEAD = "apiVersion: config.trainer.kubeflow.org/v1alpha1\nkind: Configuration\n"


def test_no_file_is_all_defaults():
    found = config.load(None)
    assert (found["webhook"]["port"], found["metrics"]["bindAddress"], found["statusServer"]["qps"]) == (
        9443,
        ":8443",
        5,
    )


REFUSED = {
    "no YAML": ("a: b: c", "mapping values are not allowed"),
    "no mapping": ("- a", "must be a mapping"),
    "another kind": (
        "apiVersion: v1\nkind: Pod\n",
        "is not known; must be config.trainer.kubeflow.org/v1alpha1 Configuration",
    ),
    "a misspelt part": (HEAD + "webhok: {}", 'unknown field "webhok"; did you mean "webhook"?'),
    "a misspelt member": (HEAD + "webhook: {prt: 1}", 'unknown field "webhook.prt"; did you mean "port"?'),
    "a port out of range": (
        HEAD + "webhook: {port: 99999}",
        "webhook.port: Invalid value: 99999: must be between 1 and 65535",
    ),
    "a negative rate": (
        HEAD + "clientConnection: {qps: -1}",
        "clientConnection.qps: Invalid value: -1: must be greater than or equal to 0",
    ),
    "no worker": (
        HEAD + "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 0}}",
        "must be greater than 0",
    ),
    "an unknown gate": (
        HEAD + "featureGates: {TrainJobStatu: true}",
        'unknown feature gate; did you mean "TrainJobStatus"?',
    ),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_file_stops_the_start(text, words):
    with pytest.raises(config.BadConfiguration) as found:
        config.load(text)
    assert words in str(found.value)


def test_tls_options_are_read_forgivingly_and_warned_about():
    found = tls.options(
        {"minVersion": "1.3", "cipherSuites": ["TLS_AES_128_GCM_SHA256", "NOPE", "TLS_RSA_WITH_RC4_128_SHA"]}
    )
    assert (found.version, found.suites, found.protocols) == (0x0304, (0x1301, 0x0005), ("http/1.1",))
    assert found.warnings == (
        'tls.cipherSuites: "NOPE" is not known; dropped',
        'tls.cipherSuites: "TLS_RSA_WITH_RC4_128_SHA" is not safe',
    )
