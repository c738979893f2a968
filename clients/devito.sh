# Devito's acoustic wave with a gradient by checkpoints; SOURCE is a folder of pip with devito and pyrevolve.
program="Devito"
what="a gradient by pyrevolve, and by \`veloc.revolve\` in its place"

run_client() {
    python_version devito
    count_unittests test_devito
}
