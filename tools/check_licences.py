"""Refuses a dependency whose licence is not permissive. Reads what cargo knows; needs no network and no packages."""

import json
import re
import subprocess
import sys

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def is_permissive(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied with permissive licences alone (`/` is an old way to write OR)."""
    expression = expression.replace("/", " OR ")
    tokens = re.findall(r"\(|\)|\bOR\b|\bAND\b|[^\s()]+(?: WITH [^\s()]+)?", expression)

    def alternatives(at: int) -> tuple[bool, int]:
        value, at = conjunction(at)
        while at < len(tokens) and tokens[at] == "OR":
            right, at = conjunction(at + 1)
            value = value or right
        return value, at

    def conjunction(at: int) -> tuple[bool, int]:
        value, at = licence(at)
        while at < len(tokens) and tokens[at] == "AND":
            right, at = licence(at + 1)
            value = value and right
        return value, at

    def licence(at: int) -> tuple[bool, int]:
        if tokens[at] == "(":
            value, at = alternatives(at + 1)
            return value, at + 1
        return tokens[at] in PERMISSIVE, at + 1

    return alternatives(0)[0]


def main() -> int:
    assert is_permissive("(MIT OR GPL-3.0) AND Unicode-3.0") and not is_permissive("MIT AND GPL-3.0")
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked"]))
    refused = [
        f"{package['name']} {package['version']}: {package['license'] or 'no licence stated'}"
        for package in metadata["packages"]
        if not is_permissive(package["license"] or "none")
    ]
    for line in refused:
        print(line, file=sys.stderr)
    print(f"licences of {len(metadata['packages'])} packages: {'refused' if refused else 'all permissive'}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
