"""How a CRD's versions are turned into each other: whom to ask, and which reviews are understood."""

from __future__ import annotations

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import webhooks

STRATEGIES = ("None", "Webhook")
REVIEWS = ("v1", "v1beta1")
UNASKED = "should not be set when strategy is not set to Webhook"


def causes(conversion: Document | None) -> list[Cause]:
    """What is wrong with `spec.conversion`. Upstream names the fields as its older version did."""
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    here = "spec.conversion"
    found: list[Cause] = []
    if not strategy:
        found.append(complaints.required(f"{here}.strategy"))
    elif strategy not in STRATEGIES:
        found.append(complaints.not_supported(f"{here}.strategy", strategy, STRATEGIES))
    if strategy == "Webhook":
        return found + _client(client, f"{here}.webhookClientConfig") + _reviews(versions)
    if client is not None:
        found.append(complaints.forbidden(f"{here}.webhookClientConfig", UNASKED))
    if versions:
        found.append(complaints.forbidden(f"{here}.conversionReviewVersions", UNASKED))
    return found


def _client(client: Document | None, here: str) -> list[Cause]:
    if client is None:
        return [complaints.required(here, "required when strategy is set to Webhook")]
    return webhooks.client(client, here)


def _reviews(versions: list[str]) -> list[Cause]:
    field = "spec.conversion.conversionReviewVersions"
    if not versions:
        return [complaints.required(field)]
    found: list[Cause] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            found.append(complaints.invalid(f"{field}[{index}]", version, "duplicate version"))
        else:
            found += complaints.all_invalid(f"{field}[{index}]", version, names.dns_1035_label(version))
    if not set(versions) & set(REVIEWS):
        found.append(complaints.invalid(field, versions, f"must include at least one of {', '.join(REVIEWS)}"))
    return found
