#!/usr/bin/env python3
"""Everything that people download, in one folder: program, wheel, source with all crates, licences, parts list, checksums.

The program must be built already (`make program`). Needs maturin and ziglang, which links the wheel against an old C library.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target/dist/layerscope"
VENDORED = """
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""
TARGET = f"{platform.machine()}-unknown-linux-gnu"


def metadata() -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def shipped(meta: dict) -> list[dict]:
    """The packages inside the program and the wheel: no tools, no tests."""
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    waiting = [package["id"] for package in meta["packages"] if package["name"] in ("layerscope", "layerscope-python")]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_inside = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_inside and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((package for package in meta["packages"] if package["id"] in seen), key=lambda package: (package["name"], package["version"]))


def licences(packages: list[dict]) -> str:
    """The licence texts of everything inside, each text once."""
    texts: dict[str, list[str]] = {}
    for package in packages:
        if package["source"] is None:
            continue
        folder = Path(package["manifest_path"]).parent
        files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))]
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in [file.read_text(encoding="utf-8", errors="replace").strip() for file in files] or ["(The package states its licence and holds no text of it.)"]:
            texts.setdefault(text, []).append(name)
    parts = ["Layerscope is licensed under MIT OR Apache-2.0. The program contains these packages:\n"]
    parts += [f"{'=' * 80}\n{chr(10).join(sorted(set(names)))}\n{'-' * 80}\n{text}\n" for text, names in sorted(texts.items(), key=lambda entry: entry[1])]
    return "\n".join(parts)


def parts_list(packages: list[dict], version: str) -> dict:
    """A software bill of materials in the CycloneDX format."""
    components = [
        {
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
            "licenses": [{"expression": (package["license"] or "").replace("/", " OR ")}],
        }
        for package in packages
        if package["source"] is not None
    ]
    lock = (ROOT / "Cargo.lock").read_bytes()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # Of what is inside, so that the same source gives the same file.
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(lock).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "layerscope", "version": version, "licenses": [{"expression": "MIT OR Apache-2.0"}]}},
        "components": components,
    }


def packed(archive: Path, folder: Path) -> None:
    """The folder as a .tar.gz that holds no names of this machine."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name, filter=plain)
    shutil.rmtree(folder)


def program(out: Path, version: str, texts: str) -> None:
    folder = out / f"layerscope-{version}-{TARGET}"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    for name in ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    (folder / "THIRD-PARTY.txt").write_text(texts, encoding="utf-8")
    subprocess.run([PROGRAM, "manual", "--out", folder / "man"], check=True, stdout=subprocess.DEVNULL)
    (folder / "completions").mkdir()
    for shell, name in {"bash": "layerscope.bash", "zsh": "_layerscope", "fish": "layerscope.fish", "powershell": "_layerscope.ps1"}.items():
        script = subprocess.check_output([PROGRAM, "completions", shell])
        (folder / "completions" / name).write_bytes(script)
    packed(out / f"{folder.name}.tar.gz", folder)


def wheel(out: Path) -> None:
    command = [sys.executable, "-m", "maturin", "build", "--quiet", "--profile", "dist", "--target", TARGET, "--zig", "--compatibility", "manylinux2014", "--auditwheel", "check", "--out", out]
    # It looks for ziglang in the `python3` of the path: that must be the one that runs this.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PATH": path})


def source(out: Path, version: str) -> None:
    """What git holds, with the source of every crate: it builds without a network."""
    folder = out / f"layerscope-{version}"
    folder.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], check=True, cwd=ROOT, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive.stdout)
    subprocess.run(["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", "vendor"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    with open(folder / ".cargo/config.toml", "a", encoding="utf-8") as config:
        config.write(VENDORED)
    # Every crate must be found by somebody who has none.
    with tempfile.TemporaryDirectory() as home:
        found = ["cargo", "metadata", "--format-version", "1", "--offline", "--locked"]
        subprocess.run(found, check=True, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, "CARGO_HOME": home})
    packed(out / f"{folder.name}-source.tar.gz", folder)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    out = arguments.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    meta = metadata()
    version = next(package["version"] for package in meta["packages"] if package["name"] == "layerscope")
    packages = shipped(meta)
    program(out, version, licences(packages))
    (out / f"layerscope-{version}.cdx.json").write_text(json.dumps(parts_list(packages, version), indent=1) + "\n", encoding="utf-8")
    source(out, version)
    wheel(out)
    files = sorted(out.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    for file in files:
        print(f"{os.path.getsize(file) / 1e6:8.1f} MB  {file.name}")


if __name__ == "__main__":
    main()
