//! Counts the calls of every function and makes chosen ones fail.
//!
//! A specification is a list like `cuMemMap:3=2,cuMemcpyDtoHAsync_v2:1+=719`:
//! a function, the number of the call, `+` for that call and all later ones,
//! and the code. With `~` in place of `=` the call itself succeeds and the
//! device fails when it comes to carry it out. Calls are numbered from one,
//! since the start or the last [`reset_counts`].

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::status::ErrorCode;
use crate::sync::lock;

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFate {
    /// The call is carried out.
    Proceed,
    /// The call returns this and does nothing.
    Fail(ErrorCode),
    /// The call returns success, and the device fails with this afterwards.
    FailLater(ErrorCode),
}

#[derive(Debug, PartialEq, Eq)]
struct InjectionRule {
    function: String,
    first: u64,
    and_later: bool,
    code: ErrorCode,
    asynchronous: bool,
}

impl InjectionRule {
    fn parse(item: &str) -> Result<Self, String> {
        let malformed = || format!("`{item}` is not like `cuMemMap:3=2`");
        let (function, rest) = item.split_once(':').ok_or_else(malformed)?;
        let (number, code, asynchronous) = match (rest.split_once('='), rest.split_once('~')) {
            (Some((number, code)), None) => (number, code, false),
            (None, Some((number, code))) => (number, code, true),
            _ => return Err(malformed()),
        };
        let (number, and_later) = match number.trim().strip_suffix('+') {
            Some(number) => (number, true),
            None => (number.trim(), false),
        };
        let first = number.parse().ok().filter(|first| *first > 0).ok_or_else(malformed)?;
        let code = code.trim().parse().ok().filter(|code| *code > 0).ok_or_else(malformed)?;
        Ok(Self {
            function: function.trim().to_owned(),
            first,
            and_later,
            code: ErrorCode(code),
            asynchronous,
        })
    }

    fn covers(&self, function: &str, call: u64) -> bool {
        self.function == function && (call == self.first || (self.and_later && call > self.first))
    }
}

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static RULES: Mutex<Vec<InjectionRule>> = Mutex::new(Vec::new());

/// Replaces the failures to inject; an unreadable specification changes nothing.
pub(crate) fn set_failures(specification: &str) -> Result<(), String> {
    let rules = specification
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(InjectionRule::parse)
        .collect::<Result<Vec<_>, _>>()?;
    *lock(&RULES) = rules;
    Ok(())
}

/// Counts a call of `function` and decides about it.
pub(crate) fn called(function: &'static str) -> CallFate {
    let number = {
        let mut counts = lock(&COUNTS);
        let count = counts.entry(function).or_insert(0);
        *count += 1;
        *count
    };
    match lock(&RULES).iter().find(|rule| rule.covers(function, number)) {
        None => CallFate::Proceed,
        Some(rule) if rule.asynchronous => CallFate::FailLater(rule.code),
        Some(rule) => CallFate::Fail(rule.code),
    }
}

/// How often `function` was called.
pub(crate) fn count(function: &str) -> u64 {
    lock(&COUNTS).get(function).copied().unwrap_or(0)
}

/// Every function called so far as `name count`, one per line, by name.
pub(crate) fn listing() -> String {
    let counts = lock(&COUNTS);
    let lines: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    lines.join("\n")
}

/// Resets the counts to zero.
pub(crate) fn reset_counts() {
    lock(&COUNTS).clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_written() {
        let rule = InjectionRule::parse("cuMemMap:3=2").unwrap();
        assert!(rule.covers("cuMemMap", 3));
        assert!(!rule.covers("cuMemMap", 4));
        assert!(!rule.covers("cuMemUnmap", 3));
        assert_eq!((rule.code, rule.asynchronous), (ErrorCode::OUT_OF_MEMORY, false));

        let rule = InjectionRule::parse("cuLaunchKernel:2+~700").unwrap();
        assert!(!rule.covers("cuLaunchKernel", 1));
        assert!(rule.covers("cuLaunchKernel", 9));
        assert_eq!((rule.code, rule.asynchronous), (ErrorCode::ILLEGAL_ADDRESS, true));
    }

    #[test]
    fn nonsense_is_refused() {
        for item in ["cuMemMap", "cuMemMap:0=2", "cuMemMap:1=0", "cuMemMap:x=2", "cuMemMap:1=2~3"] {
            assert!(InjectionRule::parse(item).is_err(), "{item}");
        }
    }
}
