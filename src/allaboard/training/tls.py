"""TLS options of the configuration file, read forgivingly: what is not known is dropped and named."""

from __future__ import annotations

from dataclasses import dataclass

from allaboard.api.documents import Document

VERSIONS = {"1.0": 0x0301, "1.1": 0x0302, "1.2": 0x0303, "1.3": 0x0304}
HTTP_1 = ("http/1.1",)

SECURE = {
    "TLS_AES_128_GCM_SHA256": 0x1301,
    "TLS_AES_256_GCM_SHA384": 0x1302,
    "TLS_CHACHA20_POLY1305_SHA256": 0x1303,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": 0xC00A,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": 0xC013,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": 0xC014,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B,
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": 0xC02C,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9,
}
INSECURE = {
    "TLS_RSA_WITH_RC4_128_SHA": 0x0005,
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": 0x000A,
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
    "TLS_RSA_WITH_AES_256_CBC_SHA": 0x0035,
    "TLS_RSA_WITH_AES_128_CBC_SHA256": 0x003C,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x009C,
    "TLS_RSA_WITH_AES_256_GCM_SHA384": 0x009D,
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": 0xC007,
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": 0xC011,
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": 0xC012,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": 0xC023,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027,
}


@dataclass(frozen=True, slots=True)
class Tls:
    """What a server is told: 0 and no suites leave the choice to the library."""

    version: int = 0
    suites: tuple[int, ...] = ()
    protocols: tuple[str, ...] = HTTP_1
    ciphers: str = ""  # the suites as OpenSSL calls them
    warnings: tuple[str, ...] = ()


def options(document: Document | None) -> Tls:
    """The options as numbers, and a word about each that was not understood or is not safe."""
    given = document or {}
    stated, names = given.get("minVersion") or "", given.get("cipherSuites") or []
    known = SECURE | INSECURE
    warnings = [f'tls.cipherSuites: "{name}" is not known; dropped' for name in names if name not in known]
    warnings += [f'tls.cipherSuites: "{name}" is not safe' for name in names if name in INSECURE]
    if stated and stated not in VERSIONS:
        warnings.append(f'tls.minVersion: "{stated}" is not known; one of: {", ".join(VERSIONS)}')
    suites = tuple(known[name] for name in names if name in known)
    protocols = tuple(given.get("nextProtos") or HTTP_1)
    ciphers = ":".join(_openssl_name(name) for name in names if name in known and "_WITH_" in name)
    return Tls(VERSIONS.get(stated, 0), suites, protocols, ciphers, tuple(warnings))


def _openssl_name(name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`; those of TLS 1.3 are always on."""
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("3DES_EDE_CBC", "DES-CBC3").replace("_CBC", "")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305").replace("RC4_128", "RC4")
    return "-".join(word.replace("_", "-") for word in (exchange, cipher) if word != "RSA")
