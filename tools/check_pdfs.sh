#!/bin/bash
# Draws every figure of fixed tiny runs and checks every PDF: sound (qpdf), fonts embedded (pdffonts), and all the text of the picture
# beside it extractable, axis labels among it (pdftotext): tools/check_pdfs.sh [FOLDER...] checks the PDFs there instead.
# Installs what it needs (as root, on Debian): qpdf and poppler-utils.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v qpdf > /dev/null || ! command -v pdftotext > /dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qpdf poppler-utils > /dev/null
fi

if [ $# = 0 ]; then
  rm -rf target/pdfs
  cargo build --quiet --release --workspace --bins --examples
  LAYERSCOPE_TINY=1 target/release/examples/figures target/pdfs > /dev/null
  set -- target/pdfs target/pdfs/*/
fi
exec "${PYTHON:-python3}" tools/check_pdfs.py "$@"
