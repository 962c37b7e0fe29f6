"""Our own certificate authority: a key pair for the plane, certificates that name where it listens, and users."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
CERTIFICATE_LIFE = timedelta(days=365)
EARLY = timedelta(minutes=5)  # clocks disagree a little


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def make_authority(name: str, now: datetime) -> Pair:
    """A new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, key.public_key(), now, AUTHORITY_LIFE)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, name: str, alternatives: list[str], now: datetime) -> Pair:
    """A server certificate for names and addresses, signed by the authority (clean under X509_STRICT)."""
    names = x509.SubjectAlternativeName([_alternative(text) for text in alternatives])
    extensions = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), names)
    return _issued(authority, _name(name), extensions, (now, CERTIFICATE_LIFE))


def issue_client(authority: Pair, name: str, groups: Sequence[str], span: tuple[datetime, timedelta]) -> Pair:
    """A client certificate: the common name is a user, each organization a group it is in."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return _issued(authority, subject, (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),), span)


def _issued(
    authority: Pair, subject: x509.Name, extensions: Sequence[x509.ExtensionType], span: tuple[datetime, timedelta]
) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    signer = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(subject, key.public_key(), *span)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _pem(builder.sign(issuer_key, hashes.SHA256()), key)


def is_good_for(pair: Pair, authority: Pair, names: list[str], until: datetime) -> bool:
    """Whether a pair is the authority's, names all of these, and will still stand at that moment."""
    try:
        found = x509.load_pem_x509_certificate(pair.certificate)
        issuer = x509.load_pem_x509_certificate(authority.certificate)
        found.verify_directly_issued_by(issuer)
        held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    said = {str(entry.value) for entry in held}
    return set(names) <= said and min(found.not_valid_after_utc, issuer.not_valid_after_utc) > until


def keep(folder: Path, stem: str, pair: Pair) -> tuple[Path, Path]:
    """Write a pair to a folder, the key readable by its owner alone."""
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    write_private(certificate, pair.certificate)
    write_private(key, pair.key)
    return certificate, key


def kept(folder: Path, stem: str) -> Pair | None:
    """The pair of an earlier start, if there is one."""
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    if not (certificate.exists() and key.exists()):
        return None
    return Pair(certificate.read_bytes(), key.read_bytes())


def write_private(path: Path, content: bytes) -> None:
    """Write a file only its owner may read, never half-written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - EARLY).not_valid_after(now + life)


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)
