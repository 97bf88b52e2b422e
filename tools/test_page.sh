#!/bin/bash
# Tests the page in headless Chromium: tools/test_page.sh. Installs what it needs, see tools/browser.sh. Where node is, the committed
# page must also be what web/ builds.
set -euo pipefail
cd "$(dirname "$0")/.."

source tools/browser.sh

export LAYERSCOPE_PAGES=$PWD/target/page
mkdir -p "$LAYERSCOPE_PAGES"
cargo build --quiet --release -p layerscope # whose server is tested too
cargo run --quiet --release -p layerscope-report --example synthetic_runs -- "$LAYERSCOPE_PAGES"
(cd web/tests && "$BROWSER_PYTHON" -m unittest "$@")

if command -v npm > /dev/null && [ -z "${NO_NODE:-}" ]; then
  (cd web && npm ci --silent && npm run --silent check)
fi
