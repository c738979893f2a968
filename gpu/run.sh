#!/usr/bin/env bash
# Tests and measures the library on this machine's GPU. Needs the NVIDIA driver and nothing else;
# with a C compiler and nvcc it does more.
#
#     run.sh [--software] [--quick] [FOLDER]
#
# FOLDER (or $OUT, or ./results) gets the results, each as soon as it is there:
#     device.json                             machine, driver, device
#     rtm.json, rtm.png                       the demonstration
#     bench-20ms.json, bench-5ms.json         the library beside bare copies and pinning up front
#     leads.json                              registration, staging, copies, mapping
#     init.json                               making caches usable, and nothing else
#     pages.json, turns.json, engine.json     touching, turns, the library's own cost
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

if $software; then
    export LD_LIBRARY_PATH=$here/softcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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

# program NAME SOURCE: prints the path of a program, compiled here if the one that was brought
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

# The lines of the lists of test programs, `program arguments | key = value | ...`, each run in a
# folder and with a configuration of its own.
test_programs() {
    local lists=("$here/programs/device.list") number=0 wrong=0 what settings name arguments
    local folder path begin result
    $quick || lists+=("$here/gpu/large.list")
    while IFS='|' read -r what settings; do
        read -r name arguments <<< "$what"
        case $name in '' | '#'*) continue ;; esac
        number=$((number + 1))
        folder=$work/case$number
        mkdir "$folder"
        tr '|' '\n' <<< "${settings//DIR/$folder}" > "$folder/veloc.cfg"
        begin=$EPOCHREALTIME result=ok
        # shellcheck disable=SC2086 # the arguments are words
        if ! path=$(program "$name" "$here/programs/$name.c" 2> "$folder/log") \
            || ! timeout --kill-after=5 60 "$path" "$folder/veloc.cfg" $arguments \
                > "$folder/log" 2>&1 < /dev/null \
            || [ "$(tail -n 1 "$folder/log")" != "done" ]; then
            result=FAILED
            wrong=$((wrong + 1))
        fi
        printf '%-7s %5s s  %s\n' "$result" "$(since "$begin")" "$name $arguments |$settings"
        [ $result = ok ] || sed 's/^/    /' "$folder/log"
        rm -rf "$folder"
    done < <(cat "${lists[@]}")
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

export -f program starts since test_programs hello
export here work quick

# Sizes: those of the paper, as far as this machine has memory for them, or such that a run takes
# seconds. In GiB and MiB. The software device has sizes of its own.
sizes() {
    local device=4 host=32 count=256 size=128 available
    $software && return
    if $quick; then device=1 host=4 count=32; fi
    available=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    while ((host > 1 && host * 10 > available * 7)); do
        host=$((host / 2)) count=$((count / 2))
    done
    echo --count $count --size ${size}M --device-cache ${device}G --host-cache ${host}G
}

main() {
    local rtm=(--verify) leads=() init=() pages=() limit=240 sizes veloc=$here/bin/veloc
    if $software; then
        echo "The software device stands in for the GPU: no time of this run means anything."
        rtm+=(--steps 300) leads=(--total 64M --repeats 1) pages=(--bytes 64M)
        init=(--device-bytes 64M --host-bytes 64M --processes 1,2 --repeats 1)
    elif $quick; then
        leads=(--total 1G --repeats 1) init=(--processes 1,2 --repeats 1) pages=(--repeats 2) limit=120
    fi
    read -ra sizes <<< "$(sizes)"

    step "device" 60 "$veloc" bench leads --only facts --output "$out/device.json"
    step "test programs" 300 bash -c test_programs
    if $software; then
        note "hello.cu" "skipped: the CUDA runtime needs a GPU" 0
    elif command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
        step "hello.cu" 120 bash -c hello
    else
        note "hello.cu" "skipped: there is no nvcc" 0
    fi
    step "rtm ${rtm[*]}" 240 \
        "$here/bin/rtm" "${rtm[@]}" --json "$out/rtm.json" --output "$out/rtm.png"
    step "bench, a checkpoint every 20 ms" $limit \
        "$veloc" bench run "${sizes[@]}" --interval 20 --repeats 1 --output "$out/bench-20ms.json"
    step "bench, a checkpoint every 5 ms" $limit \
        "$veloc" bench run "${sizes[@]}" --interval 5 --repeats 1 --output "$out/bench-5ms.json"
    step "leads: registration, staging, copies, mapping" 180 \
        "$veloc" bench leads "${leads[@]}" --output "$out/leads.json"
    step "initialisation of caches" 180 \
        "$veloc" bench init "${init[@]}" --output "$out/init.json"
    step "touching of pages" 120 \
        "$veloc" bench pages "${pages[@]}" --json "$out/pages.json"
    step "turns between processes" 120 \
        "$veloc" bench turns --repeats 2 --json "$out/turns.json"
    step "the library's own cost" 120 \
        "$veloc" bench engine --repeats 2 --json "$out/engine.json"

    echo
    cat "$work/summary"
    if [ "$failed" = 0 ]; then
        echo "every step that ran was ok"
    else
        echo "a step FAILED"
    fi
    return "$failed"
}

main 2>&1 | tee "$out/run.log"
exit "${PIPESTATUS[0]}"
