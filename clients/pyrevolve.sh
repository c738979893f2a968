# pyrevolve's own tests on `veloc.revolve`; SOURCE is a folder of pip with pyrevolve and pytest, and TESTS in the
# environment is the folder of its tests, which its source package has.
program="pyrevolve"
what="its own tests on \`veloc.revolve\`"

run_client() {
    python_version pyrevolve
    local path=$here/../python/tests/in_place_of_pyrevolve:$here/../python:$source
    # Snapshots are not compressed.
    (cd "$work" && PYTHONPATH=$path VELOC_LIBRARY="$prefix/lib/libveloc-client.so" "${PYTHON:-python3}" -m pytest --quiet \
        -p no:cacheprovider "${TESTS:?has to be the folder of its tests}" -k "not test_compression_is_used") \
        > "$work/said" 2>&1
    local code=$? ran
    ran=$(tail -n 1 "$work/said" | grep -oP '[0-9]+(?= passed)')
    passed=$((passed + ${ran:-0})) failed=$((failed + code))
    [ $code -eq 0 ] || tail -n 40 "$work/said" >&2
}
