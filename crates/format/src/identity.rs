//! Which run of a job made a version of a checkpoint: two files under one name and number need not be of one
//! moment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Bytes of an encoded identity.
pub const LEN: usize = 8 + 4;

/// The identity of a version.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Identity {
    /// The random number of the run, the same on all its processes; 0: not known.
    pub run: u64,
    /// Which of the run's versions with this name and number it is: raised when the run takes a version of the
    /// name that is not above the one before.
    pub generation: u32,
}

impl Identity {
    /// That of files which do not say who made them: upstream's, and those of a process that started alone
    /// (`VELOC_Init_single`).
    pub const UNKNOWN: Identity = Identity { run: 0, generation: 0 };

    /// Whether it is known which run it was.
    pub fn is_known(self) -> bool {
        self.run != 0
    }

    /// Whether both may be the same version: one that is not known may be any.
    pub fn may_be(self, other: Identity) -> bool {
        !self.is_known() || !other.is_known() || self == other
    }

    /// The bytes of an identity.
    pub fn encode(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&self.run.to_le_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// The identity that [`Identity::encode`] wrote.
    pub fn decode(bytes: &[u8; LEN]) -> Identity {
        let [run @ .., a, b, c, d] = *bytes;
        Identity { run: u64::from_le_bytes(run), generation: u32::from_le_bytes([a, b, c, d]) }
    }
}

/// The run that all have a copy of, by the runs that made the copies of each, the ones to take first in front. A copy
/// of a run that is not known may be of any.
pub fn common(all: &[Vec<Identity>]) -> Option<Identity> {
    let has = |one: Identity| all.iter().all(|own| own.iter().any(|other| other.may_be(one)));
    let mut tried = BTreeSet::new();
    let known = all.iter().flatten().copied().filter(|one| one.is_known() && tried.insert(*one));
    let any = || all.iter().all(|own| own.iter().any(|one| !one.is_known()));
    known.into_iter().find(|one| has(*one)).or_else(|| any().then_some(Identity::UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches ranks that are restored from two runs, a copy that is not looked at, and one that nobody knows which
    /// keeps the others from being restored.
    #[test]
    fn one_run_is_found() {
        let of = |run| Identity { run, generation: 1 };
        let any = Identity::UNKNOWN;
        assert_eq!(common(&[vec![of(2)], vec![of(1)]]), None);
        assert_eq!(common(&[vec![of(2), of(1)], vec![of(1)]]), Some(of(1)));
        assert_eq!(common(&[vec![of(2), of(1)], vec![of(1), of(2)]]), Some(of(2)), "the nearest");
        assert_eq!(common(&[vec![any], vec![of(1)]]), Some(of(1)));
        assert_eq!(common(&[vec![any], vec![of(1)], vec![of(2)]]), None);
        assert_eq!(common(&[vec![any], vec![any]]), Some(any));
        assert_eq!(common(&[vec![of(1)], vec![]]), None);
        let later = Identity { generation: 2, ..of(1) };
        assert_eq!(common(&[vec![of(1)], vec![later]]), None);
    }

    /// Catches two runs that pass for one, and a field that is read at the wrong place.
    #[test]
    fn an_identity_is_another_one() {
        let of = |run, generation| Identity { run, generation };
        assert!(of(3, 1).may_be(of(3, 1)) && of(3, 1).may_be(Identity::UNKNOWN));
        assert!(Identity::UNKNOWN.may_be(of(3, 1)));
        assert!(!of(3, 1).may_be(of(3, 2)) && !of(3, 1).may_be(of(4, 1)));
        let odd = of(0x0102_0304_0506_0708, 0x090a_0b0c);
        assert_eq!(Identity::decode(&odd.encode()), odd);
    }
}
