#!/usr/bin/env bash
# Tests and measures the library on this machine's GPU. Needs the NVIDIA driver and nothing else;
# with a C compiler and nvcc it does more.
#
#     run.sh [--software] [--quick] [--tests | --figures] [--archive FILE.tar.gz] [FOLDER]
#
# --tests and --figures do one half; the figures take at most 8 minutes, the most important first.
# --quick: less of everything, and no large files.
# --software: on the software device, where no time means anything.
# --archive also keeps all results so far in one file, for machines that give only a few back.
# FOLDER (or $OUT, or ./results) gets the results, each as soon as it is there:
#     device.json                          machine, driver, device
#     rtm.json, rtm.png                    the demonstration
#     registration.json                    how long a registration stops copies, by its size
#     figures/figure-*.json, pictures/     the paper's figures and more; see docs/bench.md
#     timeline.json, timeline.png          one job with all its workers
#     init.json, leads.json                caches made usable alone; staging, copies, mapping
#     pages.json, engine*.json             touching, the library's own cost
#     run.log, summary.txt                 everything that was printed; the table of steps
# Ends with 1 if a step failed or was not begun, and after Ctrl-C with 130; the table then has what
# was done before. Goals that were missed are named in the table, and are no failure.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
software=false quick=false tests=true figures=true archive='' out=${OUT:-results}
while (($#)); do
    case $1 in
        --software) software=true ;;
        --quick) quick=true ;;
        --tests) figures=false ;;
        --figures) tests=false ;;
        --archive)
            archive=${2-}
            [ -n "$archive" ] || { echo "run.sh: --archive: which file?" >&2; exit 2; }
            shift
            ;;
        -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) echo "run.sh: $1: there is no such option" >&2; exit 2 ;;
        *) out=$1 ;;
    esac
    shift
done

# Where containers put the driver's libraries.
container_folders=(/usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib)

# find_driver: has programs find the driver's library; fails if there is none.
find_driver() {
    local folder folders
    IFS=: read -ra folders <<< "${LD_LIBRARY_PATH:-}"
    for folder in "${folders[@]}"; do
        [ -e "${folder:-.}/libcuda.so.1" ] && return 0
    done
    # Not every user has its folder on the path.
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1' && return 0
    for folder in "${container_folders[@]}"; do
        if [ -e "$folder/libcuda.so.1" ]; then
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
            return 0
        fi
    done
    return 1
}

# By how much the bounds of steps are longer than they stand here.
patience=1
instead="to run on the software device, which is no GPU: run.sh --software --quick"
if $software; then
    # Where no time means anything, a slow machine is none that hangs.
    patience=2
    export LD_LIBRARY_PATH=$here/softcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
elif ! find_driver; then
    echo "run.sh: no CUDA driver was found: no libcuda.so.1 in LD_LIBRARY_PATH" \
        "(${LD_LIBRARY_PATH:-empty}), in ldconfig's cache, in ${container_folders[*]}; $instead" >&2
    exit 1
fi

mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
if [ -n "$archive" ]; then
    mkdir -p "$(dirname "$archive")" || exit 2
    archive=$(cd "$(dirname "$archive")" && pwd)/$(basename "$archive")
    case $archive in
        "$out"/*)
            echo "run.sh: --archive $archive: that is in the folder $out itself" >&2
            exit 2
            ;;
    esac
    command -v tar > /dev/null || { echo "run.sh: --archive: there is no tar" >&2; exit 2; }
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

failed=0 missed=0
# When the figures are to end, in seconds from the beginning; 0: never.
deadline=0
: > "$work/summary"

# note NAME RESULT SECONDS
note() {
    printf '%-52s %8s s  %s\n' "$1" "$3" "$2" | tee -a "$work/summary"
    cp "$work/summary" "$out/summary.txt"
    pack
}

# pack: puts all results so far into the archive, if one was asked for.
pack() {
    [ -n "$archive" ] || return 0
    # Its status is 1 where the log has grown meanwhile.
    if tar -C "$out" -czf "$archive.tmp" . 2> "$work/tar" || [ $? = 1 ]; then
        mv "$archive.tmp" "$archive"
    else
        cat "$work/tar"
    fi
}

# missed_goals FILE: the figures in a file of results that have missed their goals.
missed_goals() {
    awk -F '"' '$2 == "what" { what = $4 } $2 == "reached" && /false/ { print what }' "$1"
}

# The step under way: its name, its beginning, and what was in the background before its process.
step_name='' step_begin='' step_before=''

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds, and not beyond the deadline. With
# `goals_of` set to a file of results, the goals in it that were missed go into the table.
step() {
    local name=$1 limit=$(($2 * patience)) begin=$EPOCHREALTIME status result goals='' left
    shift 2
    if [ "$deadline" != 0 ]; then
        left=$((deadline - SECONDS))
        if [ "$left" -le 0 ]; then
            failed=1
            note "$name" "NOT BEGUN: the time for all figures is over" 0
            return
        fi
        [ "$limit" -le "$left" ] || limit=$left
    fi
    echo
    echo "==> $name"
    # In the background, so that a signal to this script is heard at once.
    step_name=$name step_begin=$begin step_before=$!
    timeout --kill-after=5 "$limit" "$@" &
    wait "$!"
    status=$?
    step_name=''
    case $status in
        0)
            result=ok
            [ -z "${goals_of:-}" ] || goals=$(missed_goals "$goals_of")
            [ -z "$goals" ] || result="ok, and goals were MISSED in $rounds_of_goals:"
            ;;
        124 | 137) result="FAILED: not done in $limit s" ;;
        *) result="FAILED: status $status" ;;
    esac
    [ "$status" = 0 ] || failed=1
    if [ -n "$goals" ]; then missed=1; fi
    note "$name" "$result" "$(since "$begin")"
    if [ -n "$goals" ]; then
        sed 's/^/    /' <<< "$goals" | tee -a "$work/summary"
        cp "$work/summary" "$out/summary.txt"
        pack
    fi
    return "$status"
}

# interrupted SIGNAL STATUS: ends the step under way, closes the table, and ends.
interrupted() {
    trap '' INT TERM HUP
    # A signal may come before the line after the one that starts a step, so only the shell knows.
    local step_process=$!
    if [ -n "$step_name" ] && [ "$step_process" != "$step_before" ]; then
        # It passes the signal on, and kills what does not end.
        kill -TERM "$step_process" 2> /dev/null
        wait "$step_process"
        # A signal that comes while it is starting ends it alone; what it has started is its group.
        kill -KILL -- "-$step_process" 2> /dev/null
        note "$step_name" "INTERRUPTED" "$(since "$step_begin")"
    fi
    note "the rest" "not done: $1" 0
    echo
    cat "$work/summary"
    echo "interrupted by $1; what was done before is in $out"
    finish "$2"
}

# finish STATUS: ends when everything that was printed is in the log.
finish() {
    exec 1>&- 2>&-
    wait "$log_process"
    pack
    exit "$1"
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
            || ! timeout --foreground --kill-after=5 60 "$path" "$folder/veloc.cfg" $arguments \
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

run_tests() {
    local rtm=(--verify)
    if $software; then rtm+=(--steps 300); fi
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
}

# Sizes of the figures: those of the paper, as far as this machine has memory (the program sees to
# that), or such that a run takes seconds.
run_figures() {
    local veloc=$here/bin/veloc total=4G budget=330 repeats=3 amounts=() timeline=() init=()
    local pages=() rounds=2 rounds_of_goals
    # What takes as long as storage does comes last.
    local in_memory=init,device,device-memory,small,large,memory,versions
    local in_files=small-files,files,behind
    $quick || in_files+=,sync,timeline
    deadline=$((SECONDS + 475 * patience))
    if $software; then
        total=64M budget=20 repeats=1 rounds=1 pages=(--bytes 64M)
        init=(--device-bytes 64M --host-bytes 64M --processes 1,2)
        amounts=(--count 16 --size 256K --device-cache 2M --host-cache 8M)
        timeline=("${amounts[@]}" --interval 2)
    elif $quick; then
        total=1G budget=120 repeats=1 rounds=1 init=(--processes 1,2)
        amounts=(--count 32 --device-cache 1G --host-cache 4G)
        timeline=("${amounts[@]}")
    else
        timeline=(--count 64 --host-cache 8G)
    fi
    rounds_of_goals="$rounds repeats"
    if [ "$rounds" = 1 ]; then rounds_of_goals="one repeat, which is no judgement"; fi
    step "registration: how long it stops copies" 90 \
        "$veloc" bench leads --only facts,registration --total $total --repeats $rounds \
        --out "$out/registration.json"
    step "the paper's figures and more" $((budget + 90)) \
        "$veloc" bench figures --budget $budget --repeats $repeats "${amounts[@]}" \
        --out "$out/figures"
    step "their pictures" 60 "$veloc" bench plot "$out"/figures/*.json --out "$out/pictures"
    VELOC_TRACE=$out/timeline.json step "a job with its timeline" 60 \
        "$veloc" bench run --approach ours --repeats 1 "${timeline[@]}" --out "$work/job.json"
    step "its picture" 30 "$veloc" timeline "$out/timeline.json" --out "$out/timeline"
    step "leads: staging, copies, mapping" 90 \
        "$veloc" bench leads --only staging,copies,mapping --total $total --repeats $rounds \
        --out "$out/leads.json"
    step "initialisation of caches" 90 \
        "$veloc" bench init "${init[@]}" --repeats $rounds --out "$out/init.json"
    step "touching of pages" 60 \
        "$veloc" bench pages "${pages[@]}" --repeats $rounds --out "$out/pages.json"
    goals_of=$out/engine.json step "the library's own cost" 120 \
        "$veloc" bench engine --parts "$in_memory" --repeats $rounds --out "$out/engine.json"
    goals_of=$out/engine-files.json step "the same with files" 240 \
        "$veloc" bench engine --parts "$in_files" --repeats $rounds --out "$out/engine-files.json"
    deadline=0
}

main() {
    if $software; then
        echo "The software device stands in for the GPU: no time of this run means anything."
    fi
    step "device" 60 "$here/bin/veloc" bench leads --only facts --out "$out/device.json"
    # Whoever only takes long to answer may be measured all the same.
    case $? in
        0 | 124 | 137)
            if $figures; then run_figures; fi
            if $tests; then run_tests; fi
            ;;
        *) note "the rest" "not done: the device cannot be used (above); $instead" 0 ;;
    esac

    echo
    cat "$work/summary"
    if [ "$failed" != 0 ]; then
        echo "a step FAILED or was not begun"
    elif [ "$missed" != 0 ]; then
        echo "every step that ran was ok; goals that were missed are named above"
    else
        echo "every step that ran was ok"
    fi
    return "$failed"
}

# The log is to have the end, too, and so is not ended by Ctrl-C itself.
exec > >(trap '' INT TERM HUP; exec tee "$out/run.log") 2>&1
log_process=$!
trap 'interrupted SIGINT 130' INT
trap 'interrupted SIGTERM 143' TERM
trap 'interrupted SIGHUP 129' HUP
main
finish $?
