#!/bin/bash
# Tests the page in headless Chromium: tools/test_page.sh. Installs what it needs (as root, on Debian): chromium, and Playwright
# from PyPI in .venv-page. Where node is, the committed page must also be what web/ builds.
set -euo pipefail
cd "$(dirname "$0")/.."

CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
if [ -z "$CHROMIUM" ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
  CHROMIUM=$(command -v chromium)
fi
export CHROMIUM

VENV=.venv-page
if ! [ -f $VENV/ready ]; then
  ${PYTHON:-python3} -m venv $VENV
  $VENV/bin/python -m pip install --quiet --disable-pip-version-check -r web/tests/requirements.txt
  touch $VENV/ready
fi

export LAYERSCOPE_PAGES=$PWD/target/page
mkdir -p "$LAYERSCOPE_PAGES"
cargo build --quiet --release -p layerscope # whose server is tested too
cargo run --quiet --release -p layerscope-report --example synthetic_runs -- "$LAYERSCOPE_PAGES"
(cd web/tests && "../../$VENV/bin/python" -m unittest "$@")

if command -v npm > /dev/null && [ -z "${NO_NODE:-}" ]; then
  (cd web && npm ci --silent && npm run --silent check)
fi
