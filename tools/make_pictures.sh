#!/bin/bash
# The pictures of the documentation, from the pocket models: tools/make_pictures.sh. Runs and figures go to target/pictures. The picture of the
# page needs Chromium, as tools/test_page.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=target/pictures
PROGRAM=target/release/layerscope
TEXT=pocket/corpus/sample.txt.gz
mkdir -p $WORK
cargo build --quiet --release -p layerscope
for model in pocket-bert pocket-gpt pocket-llama; do
  $PROGRAM measure --model "pocket/$model" --corpus $TEXT --limit 6000 --measures all --quiet --out "$WORK/$model" > /dev/null
done
$PROGRAM track --model pocket/pocket-pythia --revisions 'step*' --corpus $TEXT --limit 2000 --measures all --quiet --out $WORK/training > /dev/null

RUNS="$WORK/pocket-bert $WORK/pocket-gpt $WORK/pocket-llama"
$PROGRAM figures $RUNS --only fig2 --out $WORK/figures > /dev/null
$PROGRAM figures $WORK/pocket-gpt --only fig1 --out $WORK/figures > /dev/null
$PROGRAM figures $WORK/training --only shape3 --out $WORK/figures > /dev/null
$PROGRAM report $RUNS $WORK/training --out $WORK/report.html > /dev/null

source tools/browser.sh
# The, said, heart and once are pinned.
"$BROWSER_PYTHON" tools/picture_of_page.py $WORK/report.html 'tokens?run=0&at=3&pin=184,278,640,682' docs/images/page.png 1440 1040
cp $WORK/figures/fig2.png docs/images/variance-against-norm.png
cp $WORK/figures/fig1.png docs/images/projected-states.png
cp $WORK/figures/shape3.png docs/images/training.png
