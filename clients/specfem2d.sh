# SPECFEM2D in Fortran, whose forward program leaves frames of the wavefield for its kernel program; SOURCE is
# SPECFEM/specfem2d.
program="SPECFEM2D"
what="kernels of 2 programs with 8 frames, by files and by \`hand_over\`"

run_client() {
    checkout 98741db src setup external_libs/libjpeg DATA README.md Makefile.in configure config.guess config.sub \
        install-sh flags.guess EXAMPLES/Tromp2005_kernel/DATA
    cp -R "$work/source/EXAMPLES/Tromp2005_kernel" "$work/case"
    check "the case" python3 "$here/specfem2d.py" case "$work/case"
    check "configuring" configured FC=gfortran CC=gcc
    check "building the original" build
    cp -R "$work/source/bin" "$work/original-bin"
    check "the edits" python3 "$here/specfem2d.py" veloc "$work/source" \
        "$(pkg-config --variable=fortrandir veloc)/veloc_2003.f90"
    check "building with VELOC" build LDFLAGS="$(pkg-config --libs veloc) -Wl,-rpath,$prefix/lib"

    for run in original files memory; do
        cp -R "$work/case" "$work/$run"
    done
    configure "$work/files" "mode = async"
    mv "$work/files/veloc.cfg" "$work/files/DATA"
    printf '%s\n' "mode = async" "ephemeral = true" "hand_over = specfem2d-client-$$" > "$work/memory/DATA/veloc.cfg"
    check "forward by the original" forward original-bin original
    check "kernels by the original" kernels original-bin original
    check "they are numbers, and not all the same" varied "$work/original"/OUTPUT_FILES/*_{alpha,beta,rho}_kernel.bin
    for run in files memory; do
        check "$run: forward" forward source/bin "$run"
        check "$run: no frames of its own" no_frames "$work/$run"
        check "$run: kernels" kernels source/bin "$run"
        check "$run: the same kernels" same_files "$work/original" "$work/$run" "OUTPUT_FILES/*_kernel.bin"
    done
}

configured() {
    cd "$work/source" && ./configure "$@"
}

build() {
    make -C "$work/source" -j 2 xmeshfem2D xspecfem2D "$@"
}

# Programs of $1 in the folder $2.
forward() {
    cd "$work/$2" && "$work/$1/xmeshfem2D" && "$work/$1/xspecfem2D"
}

kernels() {
    cd "$work/$2" && python3 "$here/specfem2d.py" adjoint . && "$work/$1/xspecfem2D"
}

no_frames() {
    ! compgen -G "$1/OUTPUT_FILES/*frame_at*"
}
