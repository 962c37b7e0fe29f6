"""The certificate of our hooks: made once, kept in a Secret, shared by all copies, renewed before it ends."""

import asyncio
from datetime import UTC, datetime, timedelta

from cryptography import x509

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.kube.registration import Door
from allaboard.main.reception import EARLY, certificates, register
from allaboard.testing.plane import plane
from allaboard.training import admission

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECRET = Key("kubeflow-system", "aboard-webhook-cert")
NAMES = ["127.0.0.1", "hooks.system.svc"]


def on_a_plane(story):
    async def tell():
        async with plane(controllers=(), admission=()) as heart:
            return await story(heart.client)

    return asyncio.run(tell())


def test_the_first_copy_makes_it_and_the_next_finds_it():
    async def story(client):
        first = await certificates(client, SECRET, NAMES, NOW)
        secret = await client.get(kinds.SECRET, SECRET)
        assert secret["type"] == "kubernetes.io/tls"
        assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        assert await certificates(client, SECRET, NAMES, NOW + timedelta(days=1)) == first

    on_a_plane(story)


def test_copies_that_start_together_agree():
    async def story(client):
        made = await asyncio.gather(*(certificates(client, SECRET, NAMES, NOW) for _ in range(5)))
        assert len(set(made)) == 1

    on_a_plane(story)


def test_it_is_renewed_early_by_the_same_authority():
    async def story(client):
        authority, pair = await certificates(client, SECRET, NAMES, NOW)
        ends = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc
        still = await certificates(client, SECRET, NAMES, ends - EARLY - timedelta(seconds=1))
        assert still == (authority, pair)
        later = await certificates(client, SECRET, NAMES, ends - EARLY + timedelta(seconds=1))
        assert later[0] == authority and later[1] != pair

    on_a_plane(story)


def test_another_name_or_a_damaged_secret_makes_a_new_one():
    async def story(client):
        authority, pair = await certificates(client, SECRET, NAMES, NOW)
        wider = await certificates(client, SECRET, [*NAMES, "more.svc"], NOW)
        assert wider[0] == authority and wider[1] != pair
        secret = await client.get(kinds.SECRET, SECRET)
        secret = {**secret, "data": {**secret["data"], "tls.crt": "eA=="}}
        await client.update(kinds.SECRET, secret, manager="test")
        mended = await certificates(client, SECRET, NAMES, NOW)
        assert mended[0] == authority and mended[1] not in (pair, wider[1])

    on_a_plane(story)


def test_registering_twice_changes_nothing():
    async def story(client):
        hooks, door = admission.hooks(lambda: NOW), Door(b"ca", "https://127.0.0.1:1")
        await register(client, hooks, door)
        first = await client.get(kinds.VALIDATING_WEBHOOK, Key("", "aboard.dev"))
        await register(client, hooks, door)
        assert await client.get(kinds.VALIDATING_WEBHOOK, Key("", "aboard.dev")) == first
        assert [hook["name"] for hook in first["webhooks"]] == [
            "validator.trainjob.trainer.kubeflow.org",
            "validator.trainingruntime.trainer.kubeflow.org",
            "validator.clustertrainingruntime.trainer.kubeflow.org",
        ]

    on_a_plane(story)
