#!/bin/bash
# The pictures of the README, from the pocket models: tools/make_pictures.sh. Runs and figures go to target/pictures. The picture of the
# page needs Chromium, as tools/test_page.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=target/pictures
PROGRAM=target/release/layerscope
MODELS=(pocket-bert pocket-gpt pocket-llama pocket-pythia)
mkdir -p $WORK
cargo build --quiet --release -p layerscope
for model in "${MODELS[@]}"; do
  $PROGRAM measure --model "pocket/$model" --corpus pocket/corpus/sample.txt.gz --measures all --quiet --out "$WORK/$model" > /dev/null
done
$PROGRAM track --model pocket/pocket-pythia --revisions 'step*' --corpus pocket/corpus/sample.txt.gz --limit 4000 --quiet --out $WORK/training > /dev/null

runs=("${MODELS[@]/#/$WORK/}")
$PROGRAM figures "${runs[@]:0:3}" --only fig2 --out $WORK/figures > /dev/null
$PROGRAM figures $WORK/pocket-bert --only fig1 --out $WORK/figures > /dev/null
$PROGRAM figures $WORK/training --only shape3 --out $WORK/figures > /dev/null
$PROGRAM report "${runs[@]}" $WORK/training --title 'Four small models' --out $WORK/report.html > /dev/null

source tools/browser.sh
"$BROWSER_PYTHON" tools/picture_of_page.py $WORK/report.html 'tokens?run=0&at=3&pin=' docs/images/page.png
cp $WORK/figures/fig2.png docs/images/variance-against-norm.png
cp $WORK/figures/fig1.png docs/images/projected-states.png
cp $WORK/figures/shape3.png docs/images/training.png
