"""`aboard certify`: another user of a plane, with a certificate of its authority."""

import base64
from datetime import UTC, datetime, timedelta

import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from allaboard.cli.certify import command, config_for
from allaboard.cluster.tokens import user_of_certificate
from allaboard.kube.certificates import issue_client, make_authority

NOW = datetime.now(UTC)


def test_a_kubeconfig_names_the_user_and_its_groups():
    authority = make_authority("aboard", NOW)
    pair = issue_client(authority, "alice", ["developers", "ops"], (NOW, timedelta(days=3)))
    config = yaml.safe_load(config_for(authority, "https://127.0.0.1:1", pair))
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    shown = base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
    certificate = x509.load_pem_x509_certificate(shown)
    user = user_of_certificate(certificate.public_bytes(Encoding.DER))
    assert (user.name, user.groups) == ("alice", ("developers", "ops", "system:authenticated"))
    assert certificate.not_valid_after_utc <= NOW + timedelta(days=3)


def test_without_a_plane_there_is_nobody_to_be_known_to(tmp_path, monkeypatch):
    monkeypatch.setenv("ABOARD_HOME", str(tmp_path))
    said = CliRunner().invoke(command, ["alice"])
    assert "no plane runs here; start one with `aboard up --auth rbac`" in str(said.exception)
