//! PTX that is translated, and PTX that is refused.

use super::*;

const BEGIN: &str = ".version 6.0\n.target sm_60\n.address_size 64\n";

fn refused(body: &str, said: &str) {
    let entry = format!(".visible .entry k(.param .u64 a)\n{{\n.reg .b32 %r<3>;\n{body}\nret;\n}}");
    let translated = translate(&format!("{BEGIN}{entry}")).unwrap();
    let why = translated.kernels["k"].clone().unwrap_err();
    assert!(why.contains(said) && why.contains('k'), "{why}");
}

fn sizes(kernel: &Result<LaunchNeeds, String>) -> &[usize] {
    &kernel.as_ref().unwrap().sizes
}

/// Catches code that silently behaves differently from a GPU.
#[test]
fn what_is_not_known_is_refused_by_name() {
    refused("bar.sync 1;", "bar.sync 1");
    refused("bar.sync %r1;", "bar.sync %r1");
    refused("bar.sync 0, %r1;", "bar.sync 0, %r1");
    refused("bar.sync 0, 64; bar.sync 0, 96;", "bar.sync 0, 96");
    refused("bar.warp.sync -1;", "bar.warp.sync");
    refused("bar.arrive 0, 64;", "bar.arrive");
    refused("bar.red.popc.u32 %r1, 0, %p1;", "bar.red");
    refused(".param .b32 p; st.param.b32 [p], %r1; bar.sync 0;", "bar.sync 0");
    refused("ld.shared::cluster.u32 %r1, [%r2];", "shared::cluster");
    refused(".shared .b8 large[49153]; mov.u32 %r1, large;", "49152 bytes of .shared");
    refused(".shared .v4 .f32 all[4]; mov.u32 %r1, all;", "all");
    refused("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", "shfl");
    refused("mov.u32 %r9, 1;", "%r9");
    refused("cvt.rn.sat.u32.f32 %r1, %r2;", "cvt");
}

/// Catches braces of vectors taken for the end of a kernel, lost labels, and wrong sizes of parameters.
#[test]
fn kernels_are_found_with_their_parameters() {
    let ptx = format!(
        "// a comment\n{BEGIN}.visible .entry one(\n.param .u64 one_0,\n.param .align 8 .b8 one_1[24]\n)\n\
         {{\n.reg .b32 %r<5>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [one_0];\n\
         ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd1];\n$L__BB0_1:\nret;\n}}\n\
         .entry two(.param .f32 two_0) {{ ret; }}\n"
    );
    let Translation { code, kernels } = translate(&ptx).unwrap();
    assert_eq!(sizes(&kernels["one"]), [8, 24]);
    assert_eq!(sizes(&kernels["two"]), [4]);
    assert!(code.contains("l_L__BB0_1: ;"), "{code}");
}

/// Catches lines of the source (`-lineinfo`), which end without `;`, that swallow the next instruction, and
/// sections that swallow the next kernel.
#[test]
fn what_debuggers_need_is_passed_over() {
    let ptx = format!(
        "{BEGIN}.file 1 \"a.cu\"\n.section .debug_str\n{{\n.b8 0\n}}\n.entry k(.param .u32 a)\n{{\n\
         .reg .b32 %r<2>;\n.local .b8 kept[4];\n.loc 1 7 3\nld.param.u32 %r1, [a];\nret;\n}}\n"
    );
    let Translation { code, kernels } = translate(&ptx).unwrap();
    assert_eq!(sizes(&kernels["k"]), [4]);
    assert!(code.contains("params[0]") && code.contains("frame(run, 4)"), "{code}");
}
