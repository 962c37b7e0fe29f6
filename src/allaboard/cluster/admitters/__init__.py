"""Built-in admission, in upstream's order: hooks that fill in, or refuse, what a namespace or cluster has settled."""

from __future__ import annotations

from allaboard.cluster.admitters.accounts import ServiceAccounts
from allaboard.cluster.admitters.addresses import ServiceAddresses
from allaboard.cluster.admitters.lifecycle import NamespaceLifecycle
from allaboard.cluster.admitters.limiting import LimitRanges
from allaboard.cluster.admitters.priorities import Priorities, PriorityClasses
from allaboard.cluster.admitters.quotas import Quotas
from allaboard.cluster.admitters.runtimes import RuntimeClasses
from allaboard.cluster.admitters.storage import DefaultStorageClass, StorageProtection
from allaboard.cluster.admitters.taints import NewNodesWait, Tolerations

ADMISSION = (
    NamespaceLifecycle(),
    LimitRanges(),
    ServiceAccounts(),
    NewNodesWait(),
    Priorities(),
    PriorityClasses(),
    Tolerations(),
    DefaultStorageClass(),
    StorageProtection(),
    RuntimeClasses(),
    ServiceAddresses(),
    Quotas(),
)

__all__ = ["ADMISSION"]
