#!/usr/bin/env bash
# Gives every target of fuzz/ inputs that nobody vouches for: tools/fuzz.sh [SECONDS [TARGET ...]], by default 60 seconds each.
# A target ends after so many seconds or RUNS inputs. Prints a line for each, and fails if one crashed; its input is then in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift $(($# > 0))
command -v cargo-fuzz > /dev/null || cargo install --locked cargo-fuzz

# Coverage needs flags of the compiler that a stable one takes only so. Memory is safe but for a few kernels, which no target comes
# near: without a sanitizer ten times as many inputs are tried.
export RUSTC_BOOTSTRAP=1
cargo fuzz build --sanitizer none
export programs="fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release"
export seconds runs=${RUNS:-10000000}
mkdir -p fuzz/artifacts fuzz/target/logs
# Files that are written for every input are best in memory.
TMPDIR=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/layerscope-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

fuzz() {
    local target=$1 log=fuzz/target/logs/$1 length=2048 words=() status=0
    case $target in
        state | npy | requests) length=512 ;;
        gguf | torch_zip | tokenizer | manifest) length=4096 ;;
        parquet_table) length=6144 ;;
    esac
    [ ! -e "fuzz/words/$target" ] || words=("-dict=fuzz/words/$target")
    mkdir -p "fuzz/target/corpus/$target"
    "$programs/$target" "fuzz/target/corpus/$target" "fuzz/seeds/$target" "${words[@]}" -max_len=$length -timeout=10 -rss_limit_mb=3072 \
        -max_total_time="$seconds" -runs="$runs" -artifact_prefix="fuzz/artifacts/$target-" -print_final_stats=1 -verbosity=1 \
        > "$log" 2>&1 || status=$?
    awk -v target="$target" -v status=$status '
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1) } }
        /inline 8-bit counters/ { split($0, part, "[()]"); split(part[2], counters, " "); all = counters[1] }
        /number_of_executed_units/ { runs = $2 }
        /^Done / { took = $5 }
        END { printf "| %s | %d | %d | %d | %d | %s |\n", target, runs, cov, ft, took, status == 0 ? "none" : "CRASH" }' "$log"
    [ $status -eq 0 ] || { tail -n 25 "$log" >&2; return 1; }
}
export -f fuzz

targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(fuzz/fuzz_targets/*.rs)
printf '| target | inputs | edges | features | seconds | crashes |\n|---|---|---|---|---|---|\n'
printf '%s\n' "${targets[@]}" | sed 's|.*/||; s|\.rs$||' | xargs -P "${JOBS:-2}" -I TARGET bash -c 'fuzz TARGET'
