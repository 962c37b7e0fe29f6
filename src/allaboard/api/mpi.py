"""What MPI launchers read: host files in each implementation's form, and an SSH key pair as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

OPEN_MPI, INTEL, MPICH = "OpenMPI", "Intel", "MPICH"
IMPLEMENTATIONS = (OPEN_MPI, INTEL, MPICH)

# The number of points of curve P-521; a private key is a number from 1 to one less than this.
CURVE_ORDER = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
    "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    16,
)


@dataclass(frozen=True, slots=True)
class SshKeys:
    """A pair: the private key as PEM, the public one as a line of `authorized_keys`."""

    private: bytes
    public: bytes


def hostfile(hosts: Iterable[str], slots: int, implementation: str = OPEN_MPI) -> str:
    """One line per host: `host slots=n` for Open MPI, `host:n` for the Hydra family (Intel MPI, MPICH)."""
    form = f"{{}} slots={slots}\n" if implementation == OPEN_MPI else f"{{}}:{slots}\n"
    return "".join(form.format(host) for host in hosts)


def ssh_keys(secret: int) -> SshKeys:
    """The ECDSA P-521 pair that this secret number stands for; the caller brings the randomness."""
    key = ec.derive_private_key(secret % (CURVE_ORDER - 1) + 1, ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return SshKeys(private, public + b"\n")
