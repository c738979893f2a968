//! Kernels that come from PTX, as nvcc makes it of functions, tables, local arrays and calls.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use common::ptx::*;
use common::*;
use softcuda::abi::CUmodule;

/// An instruction, and the C library's function that it is.
type Named<T> = (&'static str, fn(T) -> T);

/// Runs one thread over words in device memory: what they are then, or the error.
fn run(module: CUmodule, name: &str, words: &[u64]) -> Result<Vec<u64>, u32> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = launch(module, name, [[1, 1], [1, 1]], 0, &bytes)?;
    Ok(bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect())
}

/// The result of `body` for a word: it takes `%rd2`, and leaves `%rd3`.
fn results(bodies: &[&str], words: &[&[u64]]) -> Vec<Vec<u64>> {
    let kernels = bodies.iter().enumerate().map(|(at, body)| {
        let body = format!("ld.global.u64 %rd2, [%rd1];\n{body}\nst.global.u64 [%rd1], %rd3;");
        kernel(&format!("k{at}"), &body)
    });
    let module = module(&kernels.collect::<String>());
    let one = |at: usize, word: u64| run(module, &format!("k{at}"), &[word]).unwrap()[0];
    words
        .iter()
        .enumerate()
        .map(|(at, words)| words.iter().map(|word| one(at, *word)).collect())
        .collect()
}

fn of_f32(instruction: &str) -> String {
    format!("cvt.u32.u64 %r1, %rd2; mov.b32 %f1, %r1; {instruction} %f2, %f1; mov.b32 %r2, %f2; cvt.u64.u32 %rd3, %r2;")
}

fn of_f64(instruction: &str) -> String {
    format!("mov.b64 %fd1, %rd2; {instruction} %fd2, %fd1; mov.b64 %rd3, %fd2;")
}

/// The C library's values, within two units of the last place: the software device is more accurate than a
/// GPU. Catches an instruction that is mixed up with another, is read as another type, or is refused.
#[test]
fn functions_are_those_of_the_c_library() {
    let _session = Session::start();
    let single: [Named<f32>; 16] = [
        ("ex2.approx.ftz.f32", f32::exp2),
        ("ex2.approx.f32", f32::exp2),
        ("lg2.approx.ftz.f32", f32::log2),
        ("lg2.approx.f32", f32::log2),
        ("sin.approx.ftz.f32", f32::sin),
        ("cos.approx.f32", f32::cos),
        ("tanh.approx.f32", f32::tanh),
        ("rcp.approx.ftz.f32", |x| 1.0 / x),
        ("rcp.rn.f32", |x| 1.0 / x),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt()),
        ("sqrt.rn.f32", f32::sqrt),
        ("sqrt.approx.ftz.f32", f32::sqrt),
        ("abs.ftz.f32", f32::abs),
        ("neg.f32", |x| -x),
        ("cvt.rmi.f32.f32", f32::floor),
        ("cvt.rni.f32.f32", f32::round_ties_even),
    ];
    let double: [Named<f64>; 5] = [
        ("rcp.approx.ftz.f64", |x| 1.0 / x),
        ("rsqrt.approx.f64", |x| 1.0 / x.sqrt()),
        ("sqrt.rn.f64", f64::sqrt),
        ("cvt.rpi.f64.f64", f64::ceil),
        ("cvt.rzi.f64.f64", f64::trunc),
    ];
    let values = [0.3_f64, 1.0, 2.5, 7.75, 20.0];
    let bits_f32 = values.map(|value| u64::from((value as f32).to_bits()));
    let bits_f64 = values.map(f64::to_bits);
    let mut bodies: Vec<String> = single.iter().map(|(name, _)| of_f32(name)).collect();
    bodies.extend(double.iter().map(|(name, _)| of_f64(name)));
    let mut words: Vec<&[u64]> = vec![&bits_f32; single.len()];
    words.extend(vec![&bits_f64[..]; double.len()]);
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let found = results(&bodies, &words);
    for (at, value) in values.iter().enumerate() {
        for ((name, function), found) in single.iter().zip(&found) {
            let (found, wanted) = (f32::from_bits(found[at] as u32), function(*value as f32));
            let tolerance = 2.0 * f32::EPSILON * wanted.abs().max(f32::MIN_POSITIVE);
            assert!(
                (found - wanted).abs() <= tolerance,
                "{name} of {value}: {found}, not {wanted}"
            );
        }
        for ((name, function), found) in double.iter().zip(&found[single.len()..]) {
            let (found, wanted) = (f64::from_bits(found[at]), function(*value));
            let tolerance = 2.0 * f64::EPSILON * wanted.abs();
            assert!(
                (found - wanted).abs() <= tolerance,
                "{name} of {value}: {found}, not {wanted}"
            );
        }
    }
}

/// Exact. Catches a rounding that is ignored, or moved by the compiler; saturation and `.ftz` that are
/// ignored.
#[test]
fn modifiers_of_floating_point_have_their_effect() {
    let _session = Session::start();
    let one = 1.0_f32.to_bits();
    let tiny = 0x1_u64;
    let add = |way: &str| {
        of_f32(&format!("mov.f32 %f3, 0f3F800000; add.{way}.f32 %f2, %f1, %f3; mov.f32"))
            .replace("mov.f32 %f2, %f1;", "")
    };
    let cases: [(String, f32, u32); 10] = [
        (add("rn"), 1e-10, one),
        (add("rz"), 1e-10, one),
        (add("rm"), -1e-10, one - 1),
        (add("rp"), 1e-10, one + 1),
        (add("rz"), -1e-10, one - 1),
        (of_f32("cvt.sat.f32.f32"), 7.0, one),
        (of_f32("cvt.sat.f32.f32"), f32::NAN, 0),
        (of_f32("cvt.ftz.f32.f32"), -f32::from_bits(tiny as u32), 0x8000_0000),
        (of_f32("abs.f32"), -f32::from_bits(tiny as u32), tiny as u32),
        (of_f32("sqrt.rp.f32"), 2.0, 2.0_f32.sqrt().to_bits() + 1),
    ];
    let words: Vec<[u64; 1]> = cases.iter().map(|case| [u64::from(case.1.to_bits())]).collect();
    let words: Vec<&[u64]> = words.iter().map(|word| &word[..]).collect();
    let bodies: Vec<&str> = cases.iter().map(|case| case.0.as_str()).collect();
    for ((body, from, wanted), found) in cases.iter().zip(results(&bodies, &words)) {
        assert_eq!(found[0] as u32, *wanted, "{body} of {from}");
    }
    let cases: [(&str, u64, u64); 6] = [
        ("mov.b64 %fd1, %rd2; cvt.rz.f32.f64 %f1, %fd1; cvt.f64.f32 %fd2, %f1; mov.b64 %rd3, %fd2;",
            (1.0_f64 + 0.9 * f64::from(f32::EPSILON)).to_bits(), 1.0_f64.to_bits()),
        ("mov.b64 %fd1, %rd2; cvt.rp.f32.f64 %f1, %fd1; cvt.f64.f32 %fd2, %f1; mov.b64 %rd3, %fd2;",
            (1.0_f64 + 1e-12).to_bits(), (1.0_f64 + f64::from(f32::EPSILON)).to_bits()),
        ("cvt.rz.f32.u64 %f1, %rd2; cvt.rzi.u64.f32 %rd3, %f1;", 0x01FF_FFFF, 0x01FF_FFFE),
        ("cvt.rn.f32.u64 %f1, %rd2; cvt.rzi.u64.f32 %rd3, %f1;", 0x01FF_FFFF, 0x0200_0000),
        ("mov.b64 %fd1, %rd2; cvt.rzi.s64.f64 %rd3, %fd1;", (-1e300_f64).to_bits(), 1 << 63),
        ("mov.b64 %fd1, %rd2; cvt.rni.s64.f64 %rd3, %fd1;", 2.5_f64.to_bits(), 2),
    ];
    let words: Vec<[u64; 1]> = cases.iter().map(|case| [case.1]).collect();
    let words: Vec<&[u64]> = words.iter().map(|word| &word[..]).collect();
    for (case, found) in cases.iter().zip(results(&cases.map(|case| case.0), &words)) {
        assert_eq!(found[0], case.2, "{}", case.0);
    }
}

/// Exact. Catches fields at the wrong place, carries that are lost, and vectors the wrong way around.
#[test]
fn bits_and_carries_are_those_of_a_gpu() {
    let _session = Session::start();
    let word = 0x8765_4321_0FED_CBA9_u64;
    let (low, high) = (word as u32, (word >> 32) as u32);
    let split = "mov.b64 {%r1, %r2}, %rd2;";
    let widened = "cvt.u64.u32 %rd3, %r3;";
    let square = u128::from(word) * u128::from(word);
    let three = [low, high, !low ^ 5];
    let cases: Vec<(String, u64)> = vec![
        (format!("{split} mov.b64 %rd3, {{%r2, %r1}};"), word.rotate_left(32)),
        ("mov.b64 {%r1, _}, %rd2; cvt.s64.s32 %rd3, %r1;".into(), low as i32 as u64),
        (format!("{split} bfi.b32 %r3, %r1, %r2, 4, 8; {widened}"),
            u64::from((high & !0xFF0) | ((low & 0xFF) << 4))),
        ("mov.u64 %rd4, 5; bfi.b64 %rd3, %rd4, %rd2, 32, 32;".into(), (5 << 32) | u64::from(low)),
        (format!("{split} bfe.u32 %r3, %r2, 4, 8; {widened}"), u64::from(high >> 4 & 0xFF)),
        (format!("{split} bfe.s32 %r3, %r2, 28, 8; {widened}"), u64::from((high as i32 >> 28) as u32)),
        (format!("{split} brev.b32 %r3, %r2; {widened}"), u64::from(high.reverse_bits())),
        ("popc.b64 %r3, %rd2; cvt.u64.u32 %rd3, %r3;".into(), u64::from(word.count_ones())),
        (format!("{split} clz.b32 %r3, %r1; {widened}"), u64::from(low.leading_zeros())),
        (format!("{split} bfind.u32 %r3, %r1; {widened}"), u64::from(31 - low.leading_zeros())),
        (format!("{split} prmt.b32 %r3, %r1, %r2, 0xC170; {widened}"), 0x00CB_87A9),
        (format!("{split} shf.l.wrap.b32 %r3, %r1, %r2, 36; {widened}"),
            u64::from(high << 4 | low >> 28)),
        (format!("{split} shf.r.clamp.b32 %r3, %r1, %r2, 36; {widened}"), u64::from(high)),
        (format!("{split} xor.b32 %r4, %r1, -6; lop3.b32 %r3, %r1, %r2, %r4, 0xCA; {widened}"),
            u64::from((three[0] & three[1]) | (!three[0] & three[2]))),
        (format!("{split} sub.cc.u32 %r3, %r2, %r1; subc.u32 %r4, %r1, %r2; mov.b64 %rd3, {{%r3, %r4}};"),
            word.rotate_left(32).wrapping_sub(word)),
        ("{ .reg .u64 low; mul.lo.u64 low, %rd2, %rd2; add.cc.u64 low, low, %rd2; \
          madc.hi.u64 %rd3, %rd2, %rd2, 0; }".into(), ((square + u128::from(word)) >> 64) as u64),
    ];
    let bodies: Vec<&str> = cases.iter().map(|(body, _)| body.as_str()).collect();
    let input = [word];
    let words = vec![&input[..]; cases.len()];
    for ((body, wanted), found) in cases.iter().zip(results(&bodies, &words)) {
        assert_eq!(found[0], *wanted, "{body}: {:#x}, not {wanted:#x}", found[0]);
    }
}

/// Reverses four words through local memory, reached by both kinds of address, and takes a factor from a
/// table. Catches tables without their values, and local memory that is not the thread's.
#[test]
fn local_arrays_and_tables_are_memory_like_any_other() {
    let _session = Session::start();
    let body = "
        .local .align 16 .b8 __local_depot0[32];
        .reg .b64 %SP;
        .reg .b64 %SPL;
        mov.u64 %SPL, __local_depot0;
        cvta.local.u64 %SP, %SPL;
        add.u64 %rd2, %SPL, 0;
        mov.u32 %r1, 0;
        $L_in:
        mul.wide.u32 %rd3, %r1, 8;
        add.s64 %rd4, %rd1, %rd3;
        ld.global.u64 %rd5, [%rd4];
        add.s64 %rd6, %rd2, %rd3;
        st.local.u64 [%rd6], %rd5;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, 4;
        @%p1 bra $L_in;
        mov.u64 %rd7, table;
        $L_out:
        add.u32 %r1, %r1, -1;
        mul.wide.u32 %rd3, %r1, 8;
        add.s64 %rd6, %SP, %rd3;
        ld.u64 %rd5, [%rd6];
        shr.u64 %rd3, %rd3, 1;
        add.s64 %rd3, %rd7, %rd3;
        ld.const.s32 %rd4, [%rd3];
        mul.lo.s64 %rd5, %rd5, %rd4;
        st.global.u64 [%rd1], %rd5;
        add.s64 %rd1, %rd1, 8;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra $L_out;";
    let table =
        ".const .align 4 .b8 table[16] = {2, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0};\n";
    let module = module(&format!("{table}{}", kernel("k", body)));
    assert_eq!(run(module, "k", &[1, 10, 100, 1000]), Ok(vec![7000, 500, 30, 2]));
}

/// Catches arguments, results and registers that a deeper call overwrites, blocks that leak their names,
/// and calls that never end, which would end the process.
#[test]
fn functions_call_each_other_and_themselves() {
    let _session = Session::start();
    let factorial = "
        .func (.param .b64 func_retval0) factorial(.param .b64 f_0);
        .func (.param .b64 func_retval0) factorial(.param .b64 f_0)
        {
            .local .align 8 .b8 depot[8];
            .reg .b64 %rd<5>; .reg .pred %p<2>;
            ld.param.u64 %rd1, [f_0];
            mov.u64 %rd4, depot;
            st.local.u64 [%rd4], %rd1;
            mov.u64 %rd3, 1;
            setp.eq.u64 %p1, %rd1, 0;
            @%p1 bra $L_done;
            sub.u64 %rd2, %rd1, 1;
            { // callseq 0, 0
            .reg .b32 temp_param_reg;
            .param .b64 param0;
            st.param.b64 [param0+0], %rd2;
            .param .b64 retval0;
            call.uni (retval0), factorial, ( param0 );
            ld.param.b64 %rd3, [retval0+0];
            } // callseq 0
            ld.local.u64 %rd1, [%rd4];
            mul.lo.u64 %rd3, %rd3, %rd1;
        $L_done:
            st.param.b64 [func_retval0+0], %rd3;
            ret;
        }\n";
    let body = "
        ld.global.u64 %rd2, [%rd1];
        { .param .b64 param0; .param .b64 retval0; st.param.b64 [param0+0], %rd2;
        call (retval0), factorial, (param0); ld.param.b64 %rd3, [retval0+0]; }
        { .param .b64 param0; .param .b64 retval0; st.param.b64 [param0+0], 3;
        call (retval0), factorial, (param0); ld.param.b64 %rd4, [retval0+0]; }
        st.global.u64 [%rd1], %rd3; st.global.u64 [%rd1+8], %rd4;";
    let module = module(&format!("{factorial}{}", kernel("k", body)));
    assert_eq!(run(module, "k", &[20, 0]), Ok(vec![2_432_902_008_176_640_000, 6]));
    assert_eq!(run(module, "k", &[u64::MAX, 0]), Err(ILLEGAL_ADDRESS));
}

/// Catches a refused kernel that makes the others of its module unusable, and one that runs without a
/// function that it needs.
#[test]
fn what_cannot_be_translated_is_refused_alone() {
    let _session = Session::start();
    let text = [
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n".to_owned(),
        ".extern .shared .align 16 .b8 all[];\n.global .u64 pointer = generic(all);\n".to_owned(),
        ".func waits() { bar.sync 0; ret; }\n".to_owned(),
        kernel("barrier", "bar.warp.sync -1;"),
        ".shared .b8 half_of_it[30000];\n.shared .b8 other_half[30000];\n".to_owned(),
        kernel("shared", "mov.u32 %r1, half_of_it; mov.u32 %r2, other_half;"),
        kernel("follows", "ld.global.u64 %rd2, [pointer];"),
        kernel("calls", "call waits, ();"),
        kernel("half", ".reg .f16 %h<3>; cvt.f32.f16 %f1, %h1;"),
        kernel("goes_on", "st.global.u64 [%rd1], 5;"),
    ];
    let module = module(&text.concat());
    for name in ["barrier", "shared", "follows", "calls", "half"] {
        assert_eq!(function(module, name).0, INVALID_PTX, "{name}");
    }
    assert_eq!(function(module, "waits").0, NOT_FOUND);
    assert_eq!(run(module, "goes_on", &[0]), Ok(vec![5]));
}
