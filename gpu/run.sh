#!/usr/bin/env bash
# Tests and measures the library on this machine's GPU. Needs the NVIDIA driver and nothing else;
# with a C compiler and nvcc it does more.
#
#     run.sh [--software] [--quick] [FOLDER]
#
# FOLDER (or $OUT, or ./results) gets the results, each as soon as it is there:
#     device.json                             machine, driver, device
#     rtm.json, rtm.png                       the demonstration
#     measure-20ms.json, measure-5ms.json     the library beside bare copies and pinning up front
#     leads.json                              registration, mapping, copies by size and kind
#     run.log, summary.txt                    everything that was printed; the table of steps
# Ends with 1 if a step failed.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
software=false quick=false out=${OUT:-results}
while (($#)); do
    case $1 in
        --software) software=true ;;
        --quick) quick=true ;;
        -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "run.sh: $1: there is no such option" >&2; exit 2 ;;
        *) out=$1 ;;
    esac
    shift
done

mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
exec > >(tee "$out/run.log") 2>&1

if $software; then
    export LD_LIBRARY_PATH=$here/softcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    echo "The software device stands in for the GPU: no time of this run means anything."
elif ! ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    # Where containers put the driver's libraries.
    for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib; do
        if [ -e "$folder/libcuda.so.1" ]; then
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
        fi
    done
fi

failed=0
: > "$work/summary"

# note NAME RESULT SECONDS
note() {
    printf '%-52s %8s s  %s\n' "$1" "$3" "$2" | tee -a "$work/summary"
    cp "$work/summary" "$out/summary.txt"
}

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds.
step() {
    local name=$1 limit=$2 begin=$EPOCHREALTIME status result
    shift 2
    echo
    echo "==> $name"
    timeout --kill-after=5 "$limit" "$@"
    status=$?
    case $status in
        0) result=ok ;;
        124 | 137) result="FAILED: not done in $limit s" ;;
        *) result="FAILED: status $status" ;;
    esac
    [ "$status" = 0 ] || failed=1
    note "$name" "$result" "$(since "$begin")"
}

since() {
    awk -v begin="$1" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f", end - begin }'
}

# starts FILE: whether this machine's libraries are new enough for a program.
starts() {
    [ -x "$1" ] && ! ldd "$1" 2>&1 | grep -q 'not found'
}

# program NAME SOURCES...: prints the path of a program, compiled here if the one that was brought
# along does not start.
program() {
    local name=$1
    shift
    if starts "$here/bin/$name"; then
        echo "$here/bin/$name"
        return
    fi
    if [ ! -x "$work/$name" ]; then
        ${CC:-cc} -std=c99 -D_GNU_SOURCE -O2 -pthread -I "$here/include" "$@" \
            -o "$work/$name" -L "$here/lib" -lveloc-client -ldl -Wl,-rpath,"$here/lib" >&2 || return 1
    fi
    echo "$work/$name"
}

trim() {
    sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<< "$1"
}

# The cases of cases.txt, each with its own folder and configuration.
test_programs() {
    local number=0 wrong=0 level what settings name arguments folder path
    while IFS='|' read -r level what settings; do
        case $level in '' | '#'*) continue ;; esac
        level=$(trim "$level") what=$(trim "$what") settings=$(trim "$settings")
        if $quick && [ "$level" = full ]; then continue; fi
        read -r name arguments <<< "$what"
        number=$((number + 1))
        folder=$work/case$number
        mkdir "$folder"
        tr ' ' '\n' <<< "${settings//DIR/$folder}" > "$folder/veloc.cfg"
        path=$(program "$name" "$here/programs/$name.c") || { wrong=$((wrong + 1)); continue; }
        local begin=$EPOCHREALTIME result=ok
        # shellcheck disable=SC2086 # the arguments are words
        if ! timeout --kill-after=5 60 "$path" "$folder/veloc.cfg" $arguments > "$folder/log" 2>&1; then
            result=FAILED
            wrong=$((wrong + 1))
        fi
        printf '%-8s %6s s  %s  (%s)\n' "$result" "$(since "$begin")" "$what" "$settings"
        [ $result = ok ] || sed 's/^/    /' "$folder/log"
        rm -rf "$folder"
    done < "$here/gpu/cases.txt"
    echo "$number test programs, $wrong failed"
    [ "$number" -gt 0 ] && [ "$wrong" = 0 ]
}

hello() {
    local compiler
    compiler=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc) 2> /dev/null
    "$compiler" -o "$work/hello" "$here/gpu/hello.cu" -I "$here/include" -L "$here/lib" \
        -lveloc-client -Xlinker -rpath -Xlinker "$here/lib" || return 1
    printf '%s\n' 'mode = async' "scratch = $work/hello-scratch" 'gpu_cache_size = 64M' \
        'host_cache_size = 256M' > "$work/hello.cfg"
    "$work/hello" "$work/hello.cfg"
}

export -f program starts trim since test_programs hello
export here work quick

measure=$(program measure "$here"/gpu/*.c) || { echo "run.sh: measure cannot be built"; exit 1; }

# Sizes: those of the paper, or such that a run takes seconds.
device_cache=4G host_cache=32G versions=256 size=128M total=4G limit=240 rtm=(--verify)
if $quick; then
    device_cache=1G host_cache=4G versions=32 total=1G limit=120
fi
if $software; then
    device_cache=16M host_cache=96M versions=40 size=2M total=64M rtm+=(--steps 300)
fi
sizes=(--versions "$versions" --size "$size" --device-cache "$device_cache" --host-cache "$host_cache")

step "device" 60 "$measure" facts "$out/device.json"
step "test programs" 300 bash -c test_programs
if $software; then
    note "hello.cu" "skipped: the CUDA runtime needs a GPU" 0
elif command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    step "hello.cu" 120 bash -c hello
else
    note "hello.cu" "skipped: there is no nvcc" 0
fi
step "rtm ${rtm[*]}" 240 "$here/bin/rtm" "${rtm[@]}" --json "$out/rtm.json" --output "$out/rtm.png"
step "measure, a checkpoint every 20 ms" $limit "$measure" shot "$out/measure-20ms.json" "${sizes[@]}" --interval 20
step "measure, a checkpoint every 5 ms" $limit "$measure" shot "$out/measure-5ms.json" "${sizes[@]}" --interval 5
step "leads: registration, mapping, copies" 180 "$measure" leads "$out/leads.json" --total "$total"

echo
cat "$work/summary"
if [ "$failed" = 0 ]; then
    echo "every step that ran was ok"
else
    echo "a step FAILED"
fi
exit "$failed"
