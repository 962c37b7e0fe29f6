"""Certificates that strict clients accept, in files only their owner may read."""

import ssl
import stat
from datetime import UTC, datetime

from cryptography import x509

from allaboard.kube.certificates import issue, keep, kept, make_authority

NOW = datetime.now(UTC)


def test_a_certificate_names_addresses_and_hosts():
    pair = issue(make_authority("aboard", NOW), "server", ["127.0.0.1", "kubernetes.default.svc"], NOW)
    names = x509.load_pem_x509_certificate(pair.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(n) for n in names.value.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert names.value.get_values_for_type(x509.DNSName) == ["kubernetes.default.svc"]


def test_a_handshake_under_strict_rules_succeeds(tmp_path):
    authority = make_authority("aboard", NOW)
    certificate, key = keep(tmp_path, "server", issue(authority, "server", ["localhost"], NOW))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(a, b, server_hostname="localhost")
    two = server.wrap_bio(b, a, server_side=True)
    done = set()
    for _ in range(10):
        for name, end in (("client", one), ("server", two)):
            try:
                end.do_handshake()
                done.add(name)
            except ssl.SSLWantReadError:
                continue
    assert done == {"client", "server"}


def test_kept_pairs_come_back_and_are_private(tmp_path):
    pair = make_authority("aboard", NOW)
    _, key = keep(tmp_path / "keys", "ca", pair)
    assert kept(tmp_path / "keys", "ca") == pair
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert kept(tmp_path, "none") is None
