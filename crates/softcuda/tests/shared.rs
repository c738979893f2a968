//! Kernels whose threads work together: shared memory and barriers.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use common::ptx::*;
use common::*;
use softcuda::abi::CUmodule;
use softcuda::api::*;

/// `%r1`: the thread's number in a row of blocks, and in `%rd2` the address of its word; `%r2`: that in its block.
const PLACE: &str = "
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r1, %r3, %r4, %r2; mad.wide.u32 %rd2, %r1, 4, %rd1;\n";

/// Runs a kernel over words, one for each thread or more.
fn run(
    module: CUmodule,
    name: &str,
    [blocks, threads]: [u32; 2],
    shared: u32,
    words: &[u32],
) -> Result<Vec<u32>, u32> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = launch(module, name, [[blocks, 1], [threads, 1]], shared, &bytes)?;
    Ok(bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

fn one(name: &str, body: &str) -> CUmodule {
    module(&kernel(name, &format!("{PLACE}{body}")))
}

/// Sums in halves, with a barrier in a loop. Catches threads that run to their end one after the other, a
/// barrier that only the first round of a loop waits at, registers that are lost at it, and blocks that find
/// each other's words.
#[test]
fn a_block_sums_its_words() {
    let _session = Session::start();
    let module = one(
        "k",
        ".shared .align 4 .b8 part[512];
        mov.u32 %r5, part;
        mad.lo.u32 %r5, %r2, 4, %r5;
        ld.global.u32 %r6, [%rd2];
        st.shared.u32 [%r5], %r6;
        shr.u32 %r7, %r4, 1;
        $L_half:
        bar.sync 0;
        setp.ge.u32 %p1, %r2, %r7;
        @%p1 bra $L_next;
        mad.lo.u32 %r8, %r7, 4, %r5;
        ld.shared.u32 %r8, [%r8];
        ld.shared.u32 %r6, [%r5];
        add.u32 %r6, %r6, %r8;
        st.shared.u32 [%r5], %r6;
        $L_next:
        shr.u32 %r7, %r7, 1;
        setp.ne.u32 %p1, %r7, 0;
        @%p1 bra $L_half;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 ret;
        st.global.u32 [%rd2], %r6;",
    );
    let words: Vec<u32> = (0..384).map(|at| at * at + 7).collect();
    let found = run(module, "k", [3, 128], 0, &words).unwrap();
    for (block, words) in words.chunks(128).enumerate() {
        assert_eq!(found[128 * block], words.iter().sum::<u32>(), "block {block}");
    }
}

/// A stencil over tiles of 8 by 4 with their edges, as a wave's is computed: first all threads of a block read,
/// then each uses what its neighbours have read, by generic addresses; a second barrier keeps the next round's
/// words from those that still use this one's. Catches threads that run to their end one after the other,
/// dimensions that are mixed up, a guarded barrier, and generic addresses that are not those of the block.
#[test]
fn a_stencil_uses_what_neighbours_have_read() {
    let _session = Session::start();
    // 18 by 10 words of which the inner 16 by 8 are computed, in two rounds of 16 by 4; results follow.
    let body = "
        .shared .align 4 .b8 tile[240];
        .shared .align 4 .b8 unused_but_named[4];
        .reg .b32 %x, %y, %at, %n, %z, %w;
        .reg .b64 %g, %t;
        mov.u32 %x, %tid.x;
        mov.u32 %y, %tid.y;
        mov.u32 %r1, %ctaid.x;
        mad.lo.u32 %r2, %r1, 8, %x;
        mov.u32 %n, unused_but_named;
        mov.u32 %r3, 0;
        $L_round:
        mad.lo.u32 %r4, %r3, 4, %y;
        add.u32 %r4, %r4, 1;
        mad.lo.u32 %r4, %r4, 18, %r2;
        add.u32 %r4, %r4, 1;
        mad.wide.u32 %g, %r4, 4, %rd1;
        add.u32 %at, %y, 1;
        mad.lo.u32 %at, %at, 10, %x;
        add.u32 %at, %at, 1;
        mul.wide.u32 %t, %at, 4;
        mov.u64 %rd2, tile;
        add.u64 %t, %rd2, %t;
        cvta.shared.u64 %rd3, %t;
        ld.global.u32 %r5, [%g];
        st.shared.u32 [%t], %r5;
        setp.eq.u32 %p1, %x, 0;
        @%p1 ld.global.u32 %r5, [%g+-4];
        @%p1 st.shared.u32 [%t+-4], %r5;
        setp.eq.u32 %p1, %x, 7;
        @%p1 ld.global.u32 %r5, [%g+4];
        @%p1 st.shared.u32 [%t+4], %r5;
        setp.eq.u32 %p1, %y, 0;
        @%p1 ld.global.u32 %r5, [%g+-72];
        @%p1 st.shared.u32 [%t+-40], %r5;
        setp.eq.u32 %p1, %y, 3;
        @%p1 ld.global.u32 %r5, [%g+72];
        @%p1 st.shared.u32 [%t+40], %r5;
        setp.lt.u32 %p2, %x, 8;
        @%p2 barrier.sync.aligned 0;
        ld.u32 %r5, [%rd3+-4];
        ld.u32 %r6, [%rd3+4];
        ld.u32 %r7, [%rd3+-40];
        cvta.to.shared.u64 %rd4, %rd3;
        cvt.u32.u64 %r8, %rd4;
        ld.shared.u32 %r8, [%r8+40];
        ld.shared.u32 %w, [%t];
        mul.lo.u32 %r5, %r5, 3;
        mad.lo.u32 %r5, %r6, 5, %r5;
        mad.lo.u32 %r5, %r7, 7, %r5;
        mad.lo.u32 %r5, %r8, 11, %r5;
        add.u32 %r5, %r5, %w;
        st.global.u32 [%g+720], %r5;
        bar.sync 0;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 2;
        @%p1 bra $L_round;";
    let module = module(&kernel("k", body));
    let words: Vec<u32> = (0..360).map(|at| if at < 180 { at * at % 1009 } else { 0 }).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = launch(module, "k", [[2, 1], [8, 4]], 0, &bytes).unwrap();
    let found: Vec<u32> =
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    for at in (0..180).filter(|at| (1..17).contains(&(at % 18)) && (1..9).contains(&(at / 18))) {
        let wanted = words[at]
            + 3 * words[at - 1]
            + 5 * words[at + 1]
            + 7 * words[at - 18]
            + 11 * words[at + 18];
        assert_eq!(found[180 + at], wanted, "word {at}");
    }
}

/// Of every kind of register, of a block's own that have the name of others, of local memory and of a carry.
/// Catches what is kept once for all threads, or not at all.
#[test]
fn threads_keep_what_they_know_at_a_barrier() {
    let _session = Session::start();
    let module = one(
        "k",
        ".local .align 8 .b8 depot[16];
        .local .align 8 .b8 second[8];
        mov.u64 %rd3, depot;
        st.local.u32 [%rd3+12], %r1;
        mov.u64 %rd4, second;
        cvta.local.u64 %rd4, %rd4;
        st.u32 [%rd4], %r1;
        cvt.u64.u32 %rd5, %r1;
        shl.b64 %rd5, %rd5, 33;
        cvt.rn.f32.u32 %f1, %r1;
        cvt.rn.f64.u32 %fd1, %r1;
        setp.lt.u32 %p1, %r1, 40;
        add.cc.u32 %r5, %r1, -30;
        {
        .reg .b32 %r<9>;
        .reg .b64 inner;
        mul.wide.u32 inner, %r1, 1;
        mov.u32 %r6, %tid.x;
        bar.sync 0;
        add.u32 %r1, %r6, %r1;
        cvt.u64.u32 %rd6, %r1;
        }
        addc.u32 %r6, 0, 0;
        ld.local.u32 %r7, [%rd3+12];
        add.u32 %r7, %r7, %r1;
        ld.u32 %r8, [%rd4];
        add.u32 %r7, %r7, %r8;
        shr.u64 %rd5, %rd5, 33;
        cvt.u32.u64 %r8, %rd5;
        add.u32 %r7, %r7, %r8;
        cvt.rzi.u32.f32 %r8, %f1;
        add.u32 %r7, %r7, %r8;
        cvt.rzi.u32.f64 %r8, %fd1;
        add.u32 %r7, %r7, %r8;
        cvt.u32.u64 %r8, %rd6;
        add.u32 %r7, %r7, %r8;
        mad.lo.u32 %r7, %r6, 1000, %r7;
        @%p1 add.u32 %r7, %r7, 10000;
        st.global.u32 [%rd2], %r7;",
    );
    let found = run(module, "k", [2, 32], 0, &[0; 64]).unwrap();
    for (at, found) in (0..64_u32).zip(found) {
        // 2 to the 32nd is reached from 30 on.
        let wanted = 6 * at + at % 32 + 1000 * u32::from(at >= 30) + 10000 * u32::from(at < 40);
        assert_eq!(found, wanted, "thread {at}");
    }
}

/// Catches a block that waits for threads that have ended, and one that runs them again. Threads count
/// themselves in shared memory, before and behind a barrier.
#[test]
fn threads_that_have_ended_are_not_waited_for() {
    let _session = Session::start();
    let module = one(
        "k",
        ".shared .u32 count;
        setp.eq.u32 %p1, %r2, 0;
        @%p1 st.shared.u32 [count], 0;
        bar.sync 0;
        atom.shared.add.u32 %r5, [count], 1;
        and.b32 %r6, %r2, 1;
        setp.eq.u32 %p1, %r6, 1;
        @%p1 exit;
        bar.sync 0;
        red.shared.add.u32 [count], 100;
        setp.eq.u32 %p1, %r2, 2;
        @%p1 ret;
        bar.sync 0;
        ld.shared.u32 %r5, [count];
        st.global.u32 [%rd2], %r5;",
    );
    let found = run(module, "k", [1, 10], 0, &[9; 10]);
    assert_eq!(found, Ok(vec![510, 9, 9, 9, 510, 9, 510, 9, 510, 9]));
}

/// Two names for the launch's bytes, behind a variable of the kernel's own, in a kernel and in a function that
/// it calls, whose own variable is elsewhere in another kernel. Catches variables on top of each other, and
/// places that are one kernel's taken for another's.
#[test]
fn variables_have_places_of_their_own() {
    let _session = Session::start();
    let text = [
        ".extern .shared .align 16 .b8 all[];\n.extern .shared .align 8 .u64 wide[];\n".to_owned(),
        ".shared .align 4 .u32 first;\n".to_owned(),
        ".func store(.param .b32 s_0) { .shared .u32 last; .reg .b32 %r<2>; ld.param.u32 %r1, [s_0];
         st.shared.u32 [last], %r1; st.shared.u32 [all+4], %r1; ret; }\n"
            .to_owned(),
        kernel(
            "one",
            ".shared .align 8 .b8 middle[20];
            st.shared.u32 [first], 1; st.shared.u32 [middle+16], 2; st.shared.u32 [all], 3;
            { .param .b32 p; st.param.b32 [p], 4; call store, (p); }
            ld.shared.u32 %r1, [first]; ld.shared.u32 %r2, [middle+16];
            ld.shared.u64 %rd2, [wide]; mov.u32 %r3, middle; mov.u32 %r4, all+4;
            st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; st.global.u64 [%rd1+16], %rd2;",
        ),
        kernel(
            "two",
            "{ .param .b32 p; st.param.b32 [p], 5; call store, (p); }
            mov.u32 %r1, all; ld.shared.u32 %r2, [all+-16]; st.global.v2.u32 [%rd1], {%r1, %r2};",
        ),
        kernel("none", "st.global.u32 [%rd1], 6;"),
    ];
    let module = module(&text.concat());
    // 4, the function's 4, 20 of which 0 for alignment; the launch's bytes begin at the next 16.
    let found = run(module, "one", [1, 1], 8, &[0; 6]).unwrap();
    assert_eq!(found, [1, 2, found[2], 36, 3, 4]);
    assert_eq!(run(module, "two", [1, 1], 8, &[0; 2]), Ok(vec![16, 5]));
    let sizes = ["one", "two", "none"].map(|name| {
        let mut size = -1;
        ok(cu!(cuFuncGetAttribute(&mut size, 1, function(module, name).1)));
        size
    });
    assert_eq!(sizes, [32, 16, 0]);
}

/// Catches a kernel that depends on what nobody has written without showing it: each block finds no number
/// there, also where another block or launch has written.
#[test]
fn shared_memory_begins_as_nothing() {
    let _session = Session::start();
    let module = one(
        "k",
        ".shared .f32 word;
        ld.shared.f32 %f1, [word];
        st.shared.f32 [word], 0f3F800000;
        st.global.f32 [%rd2], %f1;",
    );
    for _ in 0..2 {
        let found = run(module, "k", [3, 1], 0, &[0; 3]).unwrap();
        assert!(found.iter().all(|word| f32::from_bits(*word).is_nan()), "{found:?}");
    }
}

/// Catches accesses outside that find something else's bytes: behind the end, across it, in front of the
/// beginning, by a generic address, and with atomic instructions.
#[test]
fn what_is_outside_shared_memory_is_an_illegal_address() {
    // With the variable's 16 bytes alone, and with 16 more.
    let cases = [
        ("ld.shared.u32 %r5, [words+16];", [false, true]),
        ("st.shared.u64 [words+12], 0;", [false, true]),
        ("mov.u32 %r5, words; ld.shared.u32 %r5, [%r5+-4];", [false, false]),
        ("add.u32 %r5, words, -8; st.shared.u32 [%r5+8], %r2;", [true, true]),
        ("cvta.shared.u64 %rd3, words; st.u32 [%rd3+12], %r2;", [true, true]),
        ("cvta.shared.u64 %rd3, words; st.u32 [%rd3+16], %r2;", [false, true]),
        ("atom.shared.add.u32 %r5, [words+16], 1;", [false, true]),
        ("st.shared.u32 [4294967296], %r2; mov.u32 %r5, words;", [false, false]),
    ];
    for (code, wanted) in cases {
        for (more, wanted) in [0, 16].into_iter().zip(wanted) {
            let _session = Session::start();
            let module = one("k", &format!(".shared .align 16 .b8 words[16];\n{code}"));
            let found = run(module, "k", [1, 1], more, &[0]);
            let wanted = if wanted { Ok(vec![0]) } else { Err(ILLEGAL_ADDRESS) };
            assert_eq!(found, wanted, "{code} with {more} bytes more");
        }
    }
}

/// Catches launches that a device refuses: more shared memory than a block has, and barriers of a part of it.
#[test]
fn launches_beyond_a_block_are_invalid() {
    let _session = Session::start();
    let module = module(&[
        ".extern .shared .align 4 .b8 all[];\n".to_owned(),
        kernel("k", ".shared .b8 own[40000]; mov.u32 %r1, own; mov.u32 %r2, all; st.shared.u32 [all+9148], %r1;"),
        kernel("plain", ""),
        kernel("part", "bar.sync 0, 64;"),
    ].concat());
    assert_eq!(run(module, "k", [1, 1], (48 << 10) - 40000, &[0]), Ok(vec![0]));
    assert_eq!(run(module, "k", [1, 1], (48 << 10) - 39999, &[0]), Err(INVALID_VALUE));
    assert_eq!(run(module, "plain", [1, 1], 48 << 10, &[0]), Ok(vec![0]));
    assert_eq!(run(module, "plain", [1, 1], (48 << 10) + 1, &[0]), Err(INVALID_VALUE));
    for (threads, wanted) in [(64, Ok(vec![0])), (33, Ok(vec![0])), (65, Err(INVALID_VALUE))] {
        assert_eq!(run(module, "part", [1, threads], 0, &[0]), wanted, "{threads} threads");
    }
}
