//! Writing back the processor's caches: what was flushed and drained is in memory, and stays there where memory keeps
//! its content without power.

use std::ops::Range;
use std::sync::OnceLock;

/// The bytes that are written back together.
pub const LINE: u64 = 64;

/// The instruction that writes a line back, the best that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// x86-64: the line stays in the cache.
    Clwb,
    /// x86-64: the line leaves the cache; several at once.
    ClflushOpt,
    /// x86-64: the line leaves the cache; one after the other.
    Clflush,
    /// AArch64: to the point of persistence.
    Cvap,
    /// AArch64: to the point of coherency.
    Cvac,
}

impl Instruction {
    /// What the processor's manual calls it.
    pub fn name(self) -> &'static str {
        match self {
            Instruction::Clwb => "clwb",
            Instruction::ClflushOpt => "clflushopt",
            Instruction::Clflush => "clflush",
            Instruction::Cvap => "dc cvap",
            Instruction::Cvac => "dc cvac",
        }
    }

    /// That of this processor.
    pub fn here() -> Instruction {
        static HERE: OnceLock<Instruction> = OnceLock::new();
        *HERE.get_or_init(find)
    }

    /// Starts to write back the lines that these addresses touch. They are in memory once [`drain`] has returned.
    ///
    /// # Safety
    /// The addresses are mapped.
    pub unsafe fn flush(self, range: &Range<u64>) {
        for line in lines(range) {
            // SAFETY: the caller's promise.
            unsafe { self.flush_line(line as *const u8) };
        }
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn flush_line(self, line: *const u8) {
        use std::arch::asm;
        // SAFETY: the line is mapped, by the caller's promise, and the processor has the instruction (`find`). None of
        // them changes memory or flags.
        unsafe {
            match self {
                Instruction::Clwb => {
                    asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
                }
                Instruction::ClflushOpt => {
                    asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                }
                _ => std::arch::x86_64::_mm_clflush(line),
            }
        }
    }

    #[cfg(target_arch = "aarch64")]
    unsafe fn flush_line(self, line: *const u8) {
        use std::arch::asm;
        // SAFETY: as for x86-64; Linux lets programs use both instructions.
        unsafe {
            match self {
                Instruction::Cvap => {
                    // dc cvap, which older assemblers do not know by name.
                    asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
                }
                _ => asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }
}

/// The lines that these addresses touch, by their first one.
fn lines(range: &Range<u64>) -> impl Iterator<Item = u64> {
    (range.start / LINE * LINE..range.end).step_by(LINE as usize)
}

/// Waits until all that was flushed by this thread is in memory.
pub fn drain() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier changes nothing else.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
fn find() -> Instruction {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let leaves = __cpuid(0).eax;
    best(if leaves >= 7 { __cpuid_count(7, 0).ebx } else { 0 })
}

/// By register EBX of CPUID, leaf 7.
#[cfg(any(target_arch = "x86_64", test))]
fn best(features: u32) -> Instruction {
    match (features >> 24 & 1, features >> 23 & 1) {
        (1, _) => Instruction::Clwb,
        (_, 1) => Instruction::ClflushOpt,
        _ => Instruction::Clflush,
    }
}

#[cfg(target_arch = "aarch64")]
fn find() -> Instruction {
    // `HWCAP_DCPOP`.
    // SAFETY: a question to the system.
    match unsafe { libc::getauxval(libc::AT_HWCAP) } >> 16 & 1 {
        1 => Instruction::Cvap,
        _ => Instruction::Cvac,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an instruction that the processor does not have, or a worse one than it has.
    #[test]
    fn the_best_instruction_is_used() {
        let all = [0, 1 << 23, 1 << 24, 1 << 23 | 1 << 24].map(best);
        let expected =
            [Instruction::Clflush, Instruction::ClflushOpt, Instruction::Clwb, Instruction::Clwb];
        assert_eq!(all, expected);
    }

    /// Catches a line at either end that is left out.
    #[test]
    fn every_touched_line_is_flushed() {
        for (range, expected) in [
            (0..64, vec![0]),
            (0..65, vec![0, 64]),
            (63..128, vec![0, 64]),
            (63..129, vec![0, 64, 128]),
            (64..64, vec![]),
        ] {
            assert_eq!(lines(&range).collect::<Vec<_>>(), expected, "{range:?}");
        }
    }

    /// Catches an instruction that faults or changes what it writes back.
    #[test]
    fn what_is_flushed_stays_as_it_is() {
        let bytes: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        let at = bytes.as_ptr() as u64;
        for range in [at..at + 10_000, at + 1..at + 2, at + 63..at + 65, at..at] {
            // SAFETY: addresses of the vector.
            unsafe { Instruction::here().flush(&range) };
            drain();
        }
        assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == n as u8));
    }
}
