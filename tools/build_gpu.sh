#!/usr/bin/env bash
# What a machine with a GPU needs to test and to measure: target/gpu, programs that run without a toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf target/gpu
mkdir -p target/gpu
built() { # the program that cargo made of a test
    cargo test --release --no-run -p layerscope-cuda --test "$1" 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p'
}
for test in gpu gpu_models gpu_statistics; do
    cp "$(built "$test")" "target/gpu/$test"
done
cargo build --release -p layerscope -p layerscope-cuda --bins --examples
cp target/release/layerscope target/release/examples/gpu_speed target/gpu/
strip target/gpu/*
ls -l target/gpu
