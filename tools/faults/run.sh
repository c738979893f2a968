#!/usr/bin/env bash
# Do the tests find a fault? Plants each of the faults in this folder into a copy of the last commit, one at a time,
# and says which test fails first. Half of them are mutants of cargo-mutants, half were thought of by hand.
#
#     tools/faults/run.sh [--all] [NUMBER]...
#
# With --all everything runs that runs before a release. A fault that does not compile is an error. Run it before and
# after a change of the tests as a whole; a patch that does not apply any more is made anew.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(git -C "$here" rev-parse --show-toplevel)
tests=(timeout 3600 cargo xtask test --fail-fast)
if [ "${1:-}" = --all ]; then
    tests=(timeout 14400 cargo xtask test --all)
    shift
fi
for number in "$@"; do
    if [ ! -f "$here/$number.patch" ]; then
        echo "$0: there is no fault \"$number\"; usage: $0 [--all] [NUMBER]..., with numbers as 01" >&2
        exit 2
    fi
done
work=$root/target/faults
mkdir -p "$work"
git -C "$root" worktree remove --force "$work/tree" 2> /dev/null
git -C "$root" worktree add --quiet --detach "$work/tree" HEAD || exit 1
trap 'git -C "$root" worktree remove --force "$work/tree"' EXIT
export CARGO_TARGET_DIR=$work/target
cd "$work/tree" || exit 1
missed=0
for patch in "$here"/[0-9][0-9].patch; do
    number=$(basename "$patch" .patch)
    if [ $# -gt 0 ] && [[ " $* " != *" $number "* ]]; then
        continue
    fi
    git reset --quiet --hard && git apply "$patch" || exit 1
    export VELOC_PLANTED=$number
    begun=$SECONDS
    if ! cargo test --quiet --workspace --all-targets --no-run > "$work/$number.log" 2>&1; then
        found=
    elif "${tests[@]}" > "$work/$number.log" 2>&1; then
        found=nobody
    elif [ $? = 124 ]; then
        found="a test that hangs"
    else
        found=$(sed -n -e 's/^==> \(.*\): FAILED.*/\1/p' -e 's/.*failed: \(.*\); to repeat: .*/the step \1/p' \
            "$work/$number.log" | head -n 1)
    fi
    if [ "$found" = nobody ] || [ -z "$found" ]; then
        missed=$((missed + 1))
    fi
    printf '%s  %5d s  %-70s %s\n' "$number" $((SECONDS - begun)) "${found:-an error: see $work/$number.log}" \
        "$(head -n 1 "$patch")"
done
echo "$missed not found"
[ "$missed" = 0 ]
