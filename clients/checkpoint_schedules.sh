# The schedules of checkpoint_schedules; SOURCE is a folder of pip with checkpoint-schedules.
program="checkpoint_schedules"
what="its schedules, and \`veloc.schedules\` in their place"

run_client() {
    python_version checkpoint-schedules
    count_unittests test_schedules.Valid test_schedules.AsGoodAsThePackages test_schedules.Fast test_schedules.Example
}
