"""What Treadle's objects in a cluster are called."""

DOMAIN = "treadle.dev"
AGENT = "treadle-agent"  # the PodTemplate, the Secret, the service account, the container
CONTROLLER_LEASE = "treadle"
SLOTS, RACK, TYPED = f"{DOMAIN}/slots", f"{DOMAIN}/rack", f"{DOMAIN}/device-type"
INSTANCE = f"{DOMAIN}/instance"  # of the controller that has the lease
LABELS = {"app.kubernetes.io/name": AGENT, "app.kubernetes.io/managed-by": "treadle"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
GPU = "nvidia.com/gpu"
PORT = 7433

_POD, _LEASE = f"{AGENT}-", "node-"


JOB, JOBS = "TreadleJob", "treadlejobs"
JOBS_VERSION = f"{DOMAIN}/v1alpha1"
USER = f"{DOMAIN}/user"  # of a namespace: as whom its jobs run where Treadle is root


def jobs(namespace: str = "") -> str:
    """Objects that are jobs; of all namespaces without one."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{JOBS_VERSION}{within}/{JOBS}"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def pod_of(node: str) -> str:
    return f"{_POD}{node}"


def node_of_pod(pod: str) -> str:
    return pod.removeprefix(_POD)


def lease_of(node: str) -> str:
    return f"{_LEASE}{node}"


def node_of_lease(lease: str) -> str:
    """Empty if it is not the lease of a node."""
    return lease.removeprefix(_LEASE) if lease.startswith(_LEASE) else ""
