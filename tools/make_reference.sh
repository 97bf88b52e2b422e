#!/usr/bin/env bash
# Writes the tables of docs/measures.md and docs/settings.md anew, below what people wrote.
set -euo pipefail
cd "$(dirname "$0")/.."
for page in measures settings; do
  prose=$(sed '/^| /,$d' "docs/$page.md")
  { printf '%s\n\n' "$prose"; target/release/layerscope "$page"; } > "docs/$page.md.new"
  mv "docs/$page.md.new" "docs/$page.md"
done
