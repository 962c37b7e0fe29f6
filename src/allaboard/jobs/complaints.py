"""What is wrong with a JobSet, in upstream's words: about a field, or plainly about the whole."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from allaboard.api.documents import Document
from allaboard.api.errors import Cause, Invalid
from allaboard.api.kinds import JOB_SET
from allaboard.api.meta import name_of

# Go prints structs in the order of their declaration; keys not named here follow, in the order of the alphabet.
_DECLARED = (
    "name parallelism volumes fieldRef apiVersion prefix limits claimName exec server capabilities secretName "
    "sources medium containerName nodeAffinity requiredDuringSchedulingIgnoredDuringExecution labelSelector weight "
    "nodeSelectorTerms matchLabels rules action succeededIndexes postStart groupName generateName key hostPort "
    "hostPath completions initContainers resourceFieldRef fieldPath configMapRef requests httpGet privileged items "
    "sizeLimit podAffinity preferredDuringSchedulingIgnoredDuringExecution namespaces podAffinityTerm preference "
    "matchExpressions onExitCodes succeededCount preStop namespace path operator containerPort emptyDir containers "
    "configMapKeyRef secretRef claims tcpSocket seLinuxOptions defaultMode podAntiAffinity topologyKey matchFields "
    "onPodConditions stopSignal readOnly port type mode value values protocol secretKeyRef grpc windowsOptions "
    "optional namespaceSelector recursiveReadOnly host status valueFrom effect hostIP fileKeyRef "
    "initialDelaySeconds runAsUser matchLabelKeys mountPath scheme tolerationSeconds timeoutSeconds runAsGroup "
    "mismatchLabelKeys subPath httpHeaders secret periodSeconds runAsNonRoot mountPropagation nfs successThreshold "
    "readOnlyRootFilesystem supplementalGroups subPathExpr failureThreshold allowPrivilegeEscalation "
    "supplementalGroupsPolicy procMount fsGroup labels persistentVolumeClaim sysctls annotations "
    "fsGroupChangePolicy ownerReferences seccompProfile finalizers appArmorProfile seLinuxChangePolicy metadata "
    "spec downwardAPI configMap projected csi ephemeral image command args workingDir ports envFrom env resources "
    "resizePolicy restartPolicy terminationGracePeriodSeconds restartPolicyRules activeDeadlineSeconds volumeMounts "
    "podFailurePolicy dnsPolicy volumeDevices successPolicy nodeSelector livenessProbe backoffLimit "
    "serviceAccountName readinessProbe backoffLimitPerIndex serviceAccount startupProbe maxFailedIndexes "
    "automountServiceAccountToken lifecycle selector nodeName terminationMessagePath manualSelector hostNetwork "
    "terminationMessagePolicy template hostPID imagePullPolicy replicas ttlSecondsAfterFinished hostIPC dependsOn "
    "completionMode shareProcessNamespace suspend securityContext podReplacementPolicy imagePullSecrets stdin "
    "managedBy hostname stdinOnce subdomain tty affinity schedulerName tolerations hostAliases priorityClassName "
    "priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead "
    "topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates resourceClaims hostnameOverride "
    "schedulingGroup"
)
_CLAIM = "accessModes selector resources volumeName storageClassName volumeMode dataSource dataSourceRef"
_SPREAD = "maxSkew topologyKey whenUnsatisfiable labelSelector minDomains nodeAffinityPolicy nodeTaintsPolicy"
_ORDER, _CLAIM_ORDER, _SPREAD_ORDER = (
    {key: place for place, key in enumerate(words.split())} for words in (_DECLARED, _CLAIM, _SPREAD)
)
_ESCAPES = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}  # as Go's encoder writes them in any JSON


def invalid(field: str, value: object, words: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {_printed(value)}: {words}")


def forbidden(field: str, words: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {words}")


def plain(words: str) -> Cause:
    """A complaint that names no field: upstream reports it as an internal error of none."""
    return Cause("InternalError", "<nil>", f"Internal error: {words}")


def refusal(jobset: Document, causes: Sequence[Cause]) -> Invalid:
    """The 422 that names every cause."""
    sentences = [f"{cause.field}: {cause.message}" for cause in causes]
    told = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details = {"name": name_of(jobset), "group": JOB_SET.group, "kind": JOB_SET.kind}
    title = f'{JOB_SET.kind}.{JOB_SET.group} "{name_of(jobset)}" is invalid'
    return Invalid(f"{title}: {told}", details=details, causes=causes)


def as_structs(entry: Document) -> Document:
    """A replicated Job as Go holds it: structs that say nothing are there all the same (`metadata: {}`)."""
    template = entry.get("template") or {}
    job = template.get("spec") or {}
    pods = job.get("template") or {}
    pod = {"containers": None, **(pods.get("spec") or {})}
    for key in ("initContainers", "containers"):
        if pod.get(key) and not all(isinstance(container.get("resources"), dict) for container in pod[key]):
            pod[key] = [{**container, "resources": container.get("resources") or {}} for container in pod[key]]
    pods = {**pods, "metadata": pods.get("metadata") or {}, "spec": pod}
    return {
        **entry,
        "template": {**template, "metadata": template.get("metadata") or {}, "spec": {**job, "template": pods}},
    }


def shown(entry: Document) -> Document:
    """A replicated Job as Go prints it: a plain number that is zero is left out."""
    whole = as_structs(entry)
    return whole if whole.get("replicas") else {key: value for key, value in whole.items() if key != "replicas"}


def _printed(value: object) -> str:
    text = msgspec.json.encode(_in_go_order(value)).decode()
    if isinstance(value, str):
        return text
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def _in_go_order(value: object) -> object:
    if isinstance(value, dict):
        order = _CLAIM_ORDER if "accessModes" in value else _SPREAD_ORDER if "maxSkew" in value else _ORDER
        return {key: _in_go_order(value[key]) for key in sorted(value, key=lambda key: (order.get(key, 999), key))}
    return [_in_go_order(entry) for entry in value] if isinstance(value, list) else value
