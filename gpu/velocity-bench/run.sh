#!/bin/sh
# Builds the CUDA port of Velocity-Bench's reverse time migration twice, as it is and with its forward wavefields as
# checkpoints of this library, runs both, and compares the images byte by byte.
#
#   run.sh SOURCE_DIR LIB_DIR [OUT_DIR]
#
# SOURCE_DIR  reverse_time_migration of https://github.com/oneapi-src/Velocity-Bench; it is copied
# LIB_DIR     has lib, include and bin, as target/gpu-bundle
# OUT_DIR     gets summary.txt and results (default: out)
#
# SECONDS_LIMIT (450) bounds all of it, SM (90) is the architecture, REPEATS (3) the runs of each variant, SIZES
# ("tiny large") the workloads. Needs nvcc, cmake, make, a C++ compiler, and Python with NumPy.

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
source=$(cd "$1" && pwd) || exit 2
library=$(cd "$2" && pwd) || exit 2
out=${3:-${OUT:-out}}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
until=$(($(date +%s) + ${SECONDS_LIMIT:-450}))
work=${WORK:-$(mktemp -d /tmp/velocity-bench.XXXXXX)}
mkdir -p "$work"
python=${PYTHON:-python3}
jobs=$(nproc)
export PATH="$library/bin:$PATH" LD_LIBRARY_PATH="$library/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

say() { echo "$*" | tee -a "$out/summary.txt"; }
left() { echo $((until - $(date +%s))); }
fail() { say "FAILED: $*"; { grep -a 'rror\|\*\*\*' "$out/build.log" | tail -n 20; tail -n 15 "$out/build.log"; } 2>/dev/null; exit 1; }

command -v nvcc >/dev/null || [ ! -x /usr/local/cuda/bin/nvcc ] || export PATH="/usr/local/cuda/bin:$PATH"
nvcc=$(command -v nvcc) || fail "no nvcc"
toolkit=${CUDA_ROOT:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
say "begun $(date -u +%FT%TZ), work in $work"
say "card: $(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | head -n 1)"
say "nvcc: $("$nvcc" --version | grep release), in $toolkit; $(cmake --version | head -n 1); $(c++ --version | head -n 1)"
say "host: $jobs processors, $(free -g 2>/dev/null | sed -n '2p' | tr -s ' '), /dev/shm $(df -h /dev/shm 2>/dev/null | tail -n 1 | tr -s ' ')"
"$python" -c 'import numpy' || fail "no NumPy"

# Sources: the common edits in both, ours in one of them.
rm -rf "$work/original" "$work/relinked"
cp -r "$source" "$work/original" && rm -rf "$work/original/bin" || fail "copy"
"$python" "$here/relink.py" common "$work/original" >>"$out/build.log" 2>&1 || fail "relink.py common"
cp -r "$work/original" "$work/relinked"
"$python" "$here/relink.py" veloc "$work/relinked" >>"$out/build.log" 2>&1 || fail "relink.py veloc"

build() { # NAME: configures and builds $work/NAME
    cd "$work/$1" && timeout 60 cmake -S . -B bin -DCMAKE_BUILD_TYPE=NOMODE -DUSE_DPC=OFF -DUSE_NVIDIA_BACKEND=OFF \
        -DGPU_AOT= -DUSE_CUDA=ON -DUSE_SM="${SM:-90}" -DUSE_OpenCV=OFF -DUSE_MPI=OFF -DUSE_INTEL= -DCOMPRESSION=NO \
        -DCOMPRESSION_PATH=. -DDATA_PATH=data -DWRITE_PATH=results -DENABLE_GPU_TIMINGS=ON \
        -DCUDA_TOOLKIT_ROOT_DIR="$toolkit" -DVELOC_ROOT="$library" -DSTATES_INCLUDE="$here" -Wno-dev $CMAKE_MORE &&
        timeout "${BUILD_LIMIT:-200}" cmake --build bin --target Engine --parallel "${JOBS:-$(((jobs + 1) / 2))}"
}
begin=$(date +%s)
for name in original relinked; do
    (build $name) >"$work/build-$name.log" 2>&1 &
    eval "pid_$name=$!"
done
for name in original relinked; do
    eval "wait \$pid_$name"; code=$?
    say "build of $name: exit $code, $(($(date +%s) - begin)) s"
    { echo "==== $name"; tail -c 500000 "$work/build-$name.log"; } >>"$out/build.log"
done
for name in original relinked; do
    [ -x "$work/$name/bin/Engine" ] || fail "build of $name"
done

# A small one first, which shows whether it works at all; then the one that is measured.
code=0
for size in ${SIZES:-tiny large}; do
    "$python" "$here/workload.py" $size "$work/workload-$size" >>"$out/build.log" 2>&1 || fail "workload.py $size"
    repeats=${REPEATS:-3} limit=${RUN_LIMIT:-90}
    [ $size = large ] || { repeats=1 limit=30; }
    "$python" "$here/measure.py" --original "$work/original/bin/Engine" --relinked "$work/relinked/bin/Engine" \
        --workload "$work/workload-$size" --work "$work" --out "$out" --until "$until" --limit "$limit" \
        --repeats "$repeats" || code=1
done
say "ended $(date -u +%FT%TZ), $(left) s left, exit $code"
[ -n "$WORK" ] || rm -rf "$work"
exit $code
