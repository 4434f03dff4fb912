"""Builds kube-apiserver and kubelet from the source package of Debian 12, once for a machine.

    python -m tests.on_kubernetes.build

They are kept in $XDG_CACHE_HOME/treadle/kubernetes (~/.cache). It takes about ten minutes of one
core and 3 GB on the way. Tests never build: they are skipped where the cache is empty.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCE = "kubernetes=1.20.5+really1.20.2-1.1+deb12u1"
PROGRAMS = ("kube-apiserver", "kubelet")
PACKAGES = (
    *("golang-go", "golang-github-modern-go-reflect2-dev", "dpkg-dev", "xz-utils"),
    *("etcd-server", "containerd", "runc", "containernetworking-plugins", "iptables"),
    *("busybox-static", "kubernetes-client"),
)
REFLECT2 = "github.com/modern-go/reflect2"
GOCODE = Path("/usr/share/gocode/src")
SOURCES = Path("/etc/apt")
K8S = "k8s.io/kubernetes"
OPENAPI_GEN = f"{K8S}/vendor/k8s.io/kube-openapi/cmd/openapi-gen"


def cache() -> Path:
    """Where the programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "treadle" / "kubernetes"


def missing() -> str:
    """Why no cluster can be started here; empty if one can."""
    lacking = [name for name in PROGRAMS if not (cache() / name).is_file()]
    if lacking:
        return f"no {' and no '.join(lacking)} in {cache()}: python -m tests.on_kubernetes.build"
    programs = ("etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables")
    lacking = [name for name in programs if shutil.which(name) is None]
    lacking += [name for name in ("bridge", "host-local") if not (CNI / name).is_file()]
    if lacking:
        return f"not installed here: {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "containers are started by root"


CNI = Path("/usr/lib/cni")


def build() -> None:
    """Fetch the source, put in what Debian's build takes from elsewhere, and compile."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="build-") as folder:
        work = Path(folder)
        tree = work / "go" / "src" / K8S
        tree.parent.mkdir(parents=True)
        _fetch(work)
        (description,) = work.glob("*.dsc")
        _run(work, "dpkg-source", "--no-check", "-x", str(description), str(tree))
        _newer_reflect2(tree)
        environment = {
            "GOPATH": str(work / "go"),
            "GOCACHE": str(work / "compiled"),
            "GO111MODULE": "off",  # Modules refuse the folder `vendor` as it is.
            "CGO_ENABLED": "0",
            "GOFLAGS": os.environ.get("GOFLAGS", "-p=1"),
        }
        _generate(tree, work / "openapi-gen", environment)
        for name in PROGRAMS:
            made = work / name
            flags = ("-trimpath", "-ldflags", _version_flags())
            _go(tree, environment, "build", *flags, "-o", str(made), f"{K8S}/cmd/{name}")
            made.replace(cache() / name)


def _fetch(work: Path) -> None:
    """By the machine's own apt, which is asked for sources of where it has its packages from."""
    with _apt(work) as options:
        _run(work, "apt-get", *options, "update", "-q")
        _run(work, "apt-get", *options, "source", "-q", "--download-only", SOURCE)


@contextmanager
def _apt(work: Path) -> Iterator[list[str]]:
    parts, lists = work / "parts", work / "lists"
    parts.mkdir()
    (lists / "partial").mkdir(parents=True)
    found = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*.*"))]
    for number, path in enumerate(path for path in found if path.is_file()):
        if path.suffix in (".list", ".sources"):
            text = re.sub(r"(?m)^Types:.*$", "Types: deb-src", path.read_text())
            text = re.sub(r"(?m)^deb(-src)? ", "deb-src ", text)
            (parts / f"{number}{path.suffix}").write_text(text)
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": str(parts),
        "Dir::State::Lists": str(lists),
        "APT::Sandbox::User": "root",
    }
    yield [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _newer_reflect2(tree: Path) -> None:
    """1.0.1, which is in the tree, ends programs of Go 1.18 and later with a segmentation fault."""
    vendored = tree / "vendor" / REFLECT2
    shutil.rmtree(vendored)
    shutil.copytree(GOCODE / REFLECT2, vendored, ignore=shutil.ignore_patterns("*_test.go"))


def _generate(tree: Path, program: Path, environment: Mapping[str, str]) -> None:
    """The description of all types, which is no part of the source package."""
    _go(tree, environment, "build", "-o", str(program), OPENAPI_GEN)
    marked = sorted(
        {
            str(path.parent.relative_to(tree.parents[1]))
            for root in ("pkg", "staging/src/k8s.io", "vendor/k8s.io")
            for path in (tree / root).rglob("*.go")
            if "+k8s:openapi-gen=" in path.read_text(errors="replace")
        }
    )
    packages = ",".join(sorted({_package(each) for each in marked}))
    target = f"{K8S}/pkg/generated/openapi"
    command = (
        *(str(program), "-v", "0", "-O", "zz_generated.openapi", "-p", target),
        *("--go-header-file", "hack/boilerplate/boilerplate.generatego.txt"),
        *("-r", "/dev/null", "-i", packages),
    )
    _run(tree, *command, environment=environment)


def _package(folder: str) -> str:
    """As it is imported: what is below staging is linked into vendor."""
    return re.sub(rf"^{K8S}/staging/src/", f"{K8S}/vendor/", folder)


def _version_flags() -> str:
    version = {"gitVersion": "v1.20.2", "gitMajor": "1", "gitMinor": "20"}
    package = f"{K8S}/vendor/k8s.io/component-base/version"
    return " ".join(["-s", "-w", *(f"-X {package}.{k}={v}" for k, v in version.items())])


def _go(tree: Path, environment: Mapping[str, str], *words: str) -> None:
    _run(tree, "go", *words, environment=environment)


def _run(folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
    sys.stdout.write(f"+ {' '.join(words[:4])} ...\n")
    sys.stdout.flush()
    subprocess.run(words, cwd=folder, env={**os.environ, **(environment or {})}, check=True)


if __name__ == "__main__":
    if platform.system() != "Linux":
        sys.exit("it is built and run on Linux")
    os.nice(5)
    build()
    sys.stdout.write(f"built: {', '.join(PROGRAMS)} in {cache()}\n")
