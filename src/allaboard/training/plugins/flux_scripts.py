"""The two shell scripts of a Flux job: one installs Flux beside the program, one starts a broker on every node."""

from __future__ import annotations

from dataclasses import dataclass

BROKER_PORT = 8050
VIEW = "/mnt/flux"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What of the scripts depends on the job."""

    hosts: str  # all of them, in Flux's short form: run-node-0-[0-3]
    lead: str
    domain: str  # what a host name is completed with
    flags: str  # of `flux run`
    resources: str  # of `flux R encode`
    device: str
    queue_policy: str


def span(size: int, start: int = 0) -> str:
    """So many numbers in a row, in Flux's short form: `0` or `0-3`."""
    return str(start) if size == 1 else f"{start}-{start + size - 1}"


def hostlist(prefix: str, size: int) -> str:
    return f"{prefix}-0-[{span(size)}]"


def init_script(cluster: Cluster) -> str:
    """Runs once per pod, before the program: lays the Flux view and the broker's configuration into a shared volume."""
    return f"""#!/bin/bash
# Lays Flux and its configuration into {VIEW}, for the broker that starts next.
set -eu

root={VIEW}
config=$root/config
software=/opt/software
view=/opt/view
hosts='{cluster.hosts}'

mkdir -p "$config/etc/flux/system/conf.d" "$config/etc/flux/imp/conf.d" "$config/var/lib/flux" "$root/software"
echo "$hosts" > "$config/etc/flux/system/hosts"

cat > "$config/etc/flux/system/conf.d/broker.toml" <<'EOF'
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "{VIEW}/config/etc/flux/system/R"

[bootstrap]
curve_cert = "{VIEW}/config/etc/curve/curve.cert"
default_port = {BROKER_PORT}
default_bind = "tcp://{cluster.device}:%p"
default_connect = "tcp://%h.{cluster.domain}:%p"
hosts = [
    {{ host = "{cluster.hosts}" }},
]

[archive]
dbpath = "{VIEW}/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "{cluster.queue_policy}"
EOF

cp -R "$view/." "$root/view"
cp -R "$software/." "$root/software"
touch "$root/ready"
"""


def entry_script(cluster: Cluster) -> str:
    """Runs instead of the program: a broker on every node, and the program under it on the first."""
    return f"""#!/bin/bash
# Usage: entrypoint.sh 'the program, quoted for a shell' [further arguments]
# Starts this node's broker; the lead broker runs the program on all nodes and its exit code is the job's.
set -u

program=${{1-}}
[ "$#" -gt 0 ] && shift
eval "set -- $program \\"\\$@\\""

root={VIEW}
view=$root/view
config=$root/config
hosts='{cluster.hosts}'
lead='{cluster.lead}'
flags='{cluster.flags}'
resources='{cluster.resources}'

until [ -e "$root/ready" ]; do sleep 1; done
cp -R "$root/software/." /opt/software 2>/dev/null || true
export PATH="$view/bin:$view/sbin:$PATH"
python=$(ls -d "$view"/lib/python3* 2>/dev/null | head -n 1)
export PYTHONPATH="${{python:+$python/site-packages}}${{PYTHONPATH:+:$PYTHONPATH}}"

mkdir -p "$config/etc/curve" "$root/run"
install -m 0600 /curve/curve.cert "$config/etc/curve/curve.cert"
# shellcheck disable=SC2086
flux R encode --hosts="$hosts" $resources > "$config/etc/flux/system/R"

# The broker's options, as `flux start -o` wants them: one word, commas between.
options="--config-path=$config/etc/flux/system/conf.d,-Sbroker.rc2_none,-Stbon.fanout=256,-Stbon.connect_timeout=10m"
options="$options,-Srundir=$root/run,-Sstatedir=$config/var/lib/flux,-Slog-stderr-level=6,-Slog-stderr-mode=local"

if [ "$(hostname)" != "$lead" ]; then
    # A follower comes back until the lead has taken it in and let it go again.
    until flux start -o "$options"; do
        echo "the lead broker does not answer yet; trying again in 15 s" >&2
        sleep 15
    done
    exit 0
fi

if [ "$#" -eq 0 ]; then
    # No program: the broker waits for whoever attaches to it.
    # shellcheck disable=SC2086
    exec flux broker ${{options//,/ }}
fi
# shellcheck disable=SC2086
exec flux start -o "$options" flux run $flags "$@"
"""
