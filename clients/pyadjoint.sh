# Tapes of pyadjoint; SOURCE is a folder of pip with pyadjoint-ad and checkpoint-schedules.
program="pyadjoint"
what="tapes with \`veloc.schedules\`"

run_client() {
    python_version pyadjoint-ad
    count_unittests test_schedules.Pyadjoint
}
