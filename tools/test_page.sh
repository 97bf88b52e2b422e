#!/bin/bash
# Tests the page in headless Chromium: tools/test_page.sh. Installs what it needs, see tools/browser.sh. Where node is, the committed
# page must also be what web/ builds.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/browser.sh

export LAYERSCOPE_PAGES=$PWD/target/page
mkdir -p "$LAYERSCOPE_PAGES"
# The program's server is tested too. The whole workspace: a part of it has other features, and its crates would be compiled once more.
cargo build --quiet --release --workspace --bins --examples
target/release/examples/synthetic_runs "$LAYERSCOPE_PAGES"
(cd web/tests && "$BROWSER_PYTHON" -m unittest "$@")

if command -v npm > /dev/null && [ -z "${NO_NODE:-}" ]; then
  (cd web && npm ci --silent && npm run --silent check)
fi
