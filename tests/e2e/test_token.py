"""What a pod may ask of the API: nothing without its token, nothing beyond its token, and no token but its own."""

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import os, ssl, urllib.error, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount/"
trust, token = ssl.create_default_context(cafile=place + "ca.crt"), open(place + "token").read()
base = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)
def ask(path, token):
    request = urllib.request.Request(base + path, headers={"Authorization": "Bearer " + token} if token else {})
    try:
        return urllib.request.urlopen(request, context=trust).status
    except urllib.error.HTTPError as problem:
        return problem.code
print("codes", ask("/version", token), ask("/api/v1/secrets", ""), ask("/api/v1/secrets", token), end=" ")
print(ask("/api/v1/namespaces/default/pods", token), ask("/api/v1/secrets", token[:-9] + "AAAAAAAAA"))
"""


def test_a_pods_token_opens_what_its_roles_open(person, tmp_path):
    script = tmp_path / "ask.py"
    script.write_text(SCRIPT)
    done = person.aboard("run", str(script), "--nodes=1")
    assert "codes 200 401 403 403 401" in done.out, done.out + done.err
