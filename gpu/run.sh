#!/usr/bin/env bash
# Tests and measures the library on this machine's GPU. Needs the NVIDIA driver and nothing else;
# with a C compiler and nvcc it does more.
#
#     run.sh [--software] [--quick] [--tests] [--figures] [--rest] [--paper] [--archive FILE.tar.gz] [FOLDER]
#
# --tests, --figures, --rest: that part alone, in less than 10 minutes. Without any part, these three.
# --paper: what the numbers in the paper's text are about, at its sizes, in at most 12 minutes.
# --quick: less of everything.
# --software: on the software device, where no time means anything.
# --archive also keeps all results so far in one file, for machines that give only a few back.
# FOLDER (or $OUT, or ./results) gets the results, each as soon as it is there:
#     device.json                          machine, driver, device, memory
#     system.txt                           zones of memory, sizes of pages, HMM, as the system has them
#     tests:    rtm.json, rtm.png          the demonstration
#     figures:  launches.json              launches of kernels beside the library's work
#               figures                    the paper's figures and more; see docs/bench.md
#               init.json                  caches made usable alone
#               registration.json          how long a registration stops copies, by its size
#     rest:     engine*.json, pages.json   the library's own cost, touching
#               leads.json                 staging
#               timeline.json              one job with all its workers
#     paper:    paper                      a file for each figure; a step that was cut off leaves what it has
#               paper.md                   the paper's numbers beside those so far, made anew after each step
#     run.log, summary.txt                 everything that was printed; the table of steps
# What is there of an earlier part stays; the log and the table go on.
# Ends with 1 if a step failed, and after Ctrl-C with 130; the table then has what was done before.
# Goals that were missed are named in the table, and are no failure.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command="run.sh $*" software=false quick=false parts=() archive='' out=${OUT:-results}
while (($#)); do
    case $1 in
        --software) software=true ;;
        --quick) quick=true ;;
        --tests | --figures | --rest | --paper) parts+=("${1#--}") ;;
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
((${#parts[@]})) || parts=(tests figures rest)

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

instead="to run on the software device, which is no GPU: run.sh --software --quick"
if $software; then
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

# note NAME RESULT SECONDS
note() {
    printf '%-52s %8s s  %s\n' "$1" "$3" "$2" | tee -a "$out/summary.txt"
    [ ! -d "$out/paper" ] \
        || timeout --kill-after=1 2 "$bench" paper "$out/paper" --out "$out/paper.md" > /dev/null
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

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds. The limits of a part add up to less than
# 10 minutes (--paper: 12), which a test of the project checks. With `goals_of` set to a file of results,
# the goals in it that were missed go into the table.
step() {
    local name=$1 limit=$2 begin=$EPOCHREALTIME status result goals=''
    shift 2
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
    note "$name" "$result" "$(since "$begin")"
    if [ -n "$goals" ]; then
        missed=1
        sed 's/^/    /' <<< "$goals" | tee -a "$out/summary.txt"
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
    cat "$out/summary.txt"
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

# nvcc_here: prints the path of this machine's nvcc.
nvcc_here() {
    command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null
}

# program NAME: prints the path of a program, compiled here if the one that was brought along does not
# start.
program() {
    local name=$1 compile=("${CC:-cc}" -std=c99 -pthread "$here/programs/$1.c")
    if starts "$here/bin/$name"; then
        echo "$here/bin/$name"
        return
    fi
    if [ ! -x "$work/$name" ]; then
        [ ! -e "$here/gpu/$name.cu" ] || compile=("$(nvcc_here)" "$here/gpu/$name.cu")
        "${compile[@]}" -O2 -I "$here/include" -o "$work/$name" -L "$here/lib" \
            -lveloc-client -ldl -lm -Xlinker -rpath -Xlinker "$here/lib" >&2 || return 1
    fi
    echo "$work/$name"
}

# test_programs LIST: runs its lines, `program arguments | key = value | ...`, each in a folder and with
# a configuration of its own.
test_programs() {
    local number=0 wrong=0 what settings name arguments folder path begin result
    while IFS='|' read -r what settings; do
        read -r name arguments <<< "$what"
        case $name in '' | '#'*) continue ;; esac
        number=$((number + 1))
        folder=$work/case$number
        mkdir "$folder"
        tr '|' '\n' <<< "${settings//DIR/$folder}" > "$folder/veloc.cfg"
        begin=$EPOCHREALTIME result=ok
        # shellcheck disable=SC2086 # the arguments are words
        if ! path=$(program "$name" 2> "$folder/log") \
            || ! timeout --foreground --kill-after=5 60 "$path" "$folder/veloc.cfg" $arguments \
                > "$folder/log" 2>&1 < /dev/null \
            || [ "$(tail -n 1 "$folder/log")" != "done" ]; then
            result=FAILED
            wrong=$((wrong + 1))
        fi
        printf '%-7s %5s s  %s\n' "$result" "$(since "$begin")" "$name $arguments |$settings"
        [ "$result" = ok ] || sed 's/^/    /' "$folder/log"
        rm -rf "$folder"
    done < "$1"
    echo "$number test programs, $wrong failed"
    [ "$number" -gt 0 ] && [ "$wrong" = 0 ]
}

export -f nvcc_here program starts since test_programs
export here work

# Sizes: those of the paper, as far as this machine has memory (the program sees to that), or such that a
# run takes seconds. `memory` is what the figures have use for.
bench=$here/bin/veloc-bench memory=80G total=4G budget=230 repeats=3 rounds=2 rounds_of_goals="2 repeats"
amounts=() timeline=(--count 64 --host-cache 8G) init=() pages=(--bytes 256M) rtm=(--verify)
# For the paper's numbers: device memory of one process, and of each of eight.
paper=() alone=32G together=8G
if $software || $quick; then
    repeats=1 rounds=1 rounds_of_goals="one repeat, which is no judgement"
fi
if $software; then
    memory=64M total=64M budget=10 pages=(--bytes 64M) rtm+=(--steps 300)
    init=(--device-bytes 64M --host-bytes 64M --processes "1,2")
    amounts=(--count 16 --size 256K --device-cache 2M --host-cache 8M)
    timeline=("${amounts[@]}" --interval 2)
    paper=(--count 16 --size 256K --device-cache 512K --host-cache 4M) alone=64M together=64M
elif $quick; then
    total=1G budget=120 init=(--processes "1,2")
    amounts=(--count 32 --device-cache 1G --host-cache 4G)
    timeline=("${amounts[@]}")
    paper=(--count 32 --device-cache 512M --host-cache 4G) alone=4G together=1G
fi

run_tests() {
    local name="programs of the CUDA runtime" missing=''
    step "test programs" 240 bash -c 'test_programs "$here/programs/device.list"'
    if $software && [ ! -e "$here/softcuda/libcudart.so.11.0" ]; then
        missing="the software device has no CUDA runtime"
    elif ! starts "$here/bin/hello" && { $software || ! nvcc_here > /dev/null; }; then
        missing="bin/hello is not there or does not start, and there is no nvcc"
    fi
    if [ -n "$missing" ]; then
        note "$name" "skipped: $missing" 0
    else
        step "$name" 120 bash -c 'test_programs "$here/gpu/runtime.list"'
    fi
    step "rtm ${rtm[*]}" 120 \
        "$here/bin/rtm" "${rtm[@]}" --json "$out/rtm.json" --output "$out/rtm.png"
}

# The most important first.
run_figures() {
    step "launches of kernels beside the library's work" 60 \
        "$bench" leads --only launches --total "$total" --repeats "$rounds" \
        --out "$out/launches.json"
    step "the paper's figures and more" $((budget + 40)) \
        "$bench" figures --budget "$budget" --repeats "$repeats" "${amounts[@]}" \
        --out "$out/figures"
    step "initialisation of caches" 60 \
        "$bench" init "${init[@]}" --repeats "$rounds" --out "$out/init.json"
    step "registration: how long it stops copies" 60 \
        "$bench" leads --only registration --total "$total" --repeats "$rounds" \
        --out "$out/registration.json"
}

run_rest() {
    # What takes as long as storage does.
    local in_files=small-files,files,behind
    $quick || in_files+=,sync,timeline
    $quick || step "large test programs" 70 bash -c 'test_programs "$here/gpu/large.list"'
    goals_of=$out/engine.json step "the library's own cost" 70 \
        "$bench" engine --parts init,device,device-memory,small,large,memory,versions \
        --repeats "$rounds" --out "$out/engine.json"
    VELOC_TRACE=$out/timeline.json step "a job with its timeline" 40 \
        "$bench" run --approach ours --repeats 1 "${timeline[@]}" --out "$work/job.json"
    step "leads: staging" 60 \
        "$bench" leads --only staging --total "$total" --repeats "$rounds" \
        --out "$out/leads.json"
    step "touching of pages" 60 \
        "$bench" pages "${pages[@]}" --repeats "$rounds" --out "$out/pages.json"
    goals_of=$out/engine-files.json step "the library's own cost with files" 120 \
        "$bench" engine --parts "$in_files" --repeats "$rounds" --out "$out/engine-files.json"
}

# paper_figure NAME LIMIT
paper_figure() {
    step "figure $1 of the paper" "$2" \
        "$bench" figures --extent paper --only "$1" --repeats 1 "${paper[@]}" --out "$out/paper"
}

# paper_allocation PROCESSES BYTES LIMIT
paper_allocation() {
    step "figure 4a of the paper, processes: $1" "$3" \
        "$bench" init --processes "$1" --device-bytes "$2" --host-bytes "$together" \
        --steps "$together" --repeats 1 --out "$out/paper/figure-4a-$1.json"
}

# The limits are a third more than such points took on an H200; how long those take that were never measured (8
# processes, buffers of 32 and 64 GiB, all of 4a) is a guess.
run_paper() {
    mkdir -p "$out/paper"
    paper_figure 5ab 95
    paper_figure 3 100
    paper_figure 4bc 50
    paper_figure 6ab 60
    paper_figure 6c 130
    paper_allocation 1 "$alone" 15
    paper_allocation 8 "$together" 35
    paper_figure 5c 85
    echo
    cat "$out/paper.md"
}

# What explains figures of memory: in which zones it is (registering moves pages out of Movable first), pages,
# and whether the driver shares the system's page tables (HMM).
tell_system() {
    local file
    for file in /proc/zoneinfo /proc/driver/nvidia/version /sys/module/nvidia_uvm/parameters/uvm_disable_hmm \
        /sys/kernel/mm/transparent_hugepage/*enabled /sys/kernel/mm/hugepages/*/*_hugepages; do
        if [ -r "$file" ]; then
            echo "== $file"
            cat "$file"
        fi
    done
    getconf PAGESIZE
}

main() {
    local part
    echo "$command" | tee -a "$out/summary.txt"
    if $software; then
        echo "The software device stands in for the GPU: no time of this run means anything."
    fi
    tell_system > "$out/system.txt"
    # Touched here, memory is there when it is measured, also on machines that give it as it is used.
    # Tests have no use for that.
    local facts=facts,grow
    [ "${parts[*]}" != tests ] || facts=facts
    step "device and memory" 75 \
        "$bench" leads --only "$facts" --total "$memory" --out "$out/device.json"
    # Whoever only takes long to answer may be measured all the same.
    case $? in
        0 | 124 | 137) for part in "${parts[@]}"; do "run_$part"; done ;;
        *) note "the rest" "not done: the device cannot be used (above); $instead" 0 ;;
    esac

    echo
    cat "$out/summary.txt"
    if [ "$failed" != 0 ]; then
        echo "a step FAILED"
    elif [ "$missed" != 0 ]; then
        echo "every step that ran was ok; goals that were missed are named above"
    else
        echo "every step that ran was ok"
    fi
    return "$failed"
}

# The log is to have the end, too, and so is not ended by Ctrl-C itself.
exec > >(trap '' INT TERM HUP; exec tee -a "$out/run.log") 2>&1
log_process=$!
trap 'interrupted SIGINT 130' INT
trap 'interrupted SIGTERM 143' TERM
trap 'interrupted SIGHUP 129' HUP
main
finish $?
