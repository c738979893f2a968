//! What the processes of a run tell each other when they meet ([`meetings`](super::meetings)), as numbers of
//! which a reduction finds the least.

use super::adjoints::{Versions, KINDS};
use crate::error::{Error, Kind, Result};

/// What stands for no version.
const NONE: i64 = -1;
/// Numbers in front of the text of a failure: whether to go on, the steps to the next meeting, the
/// versions of adjoints, what was agreed on, and for what there was no room.
const HEAD: usize = 2 + 2 * KINDS + 2 + 2;
/// Where what there was no room for stands among these.
const SHORTAGE: usize = HEAD - 2;
/// Numbers of the text: each has the moment, the process and 2 bytes, so that the least at each place are
/// those of one process, of the first to fail the lowest one.
const TEXT: usize = 192;
const BYTES: usize = 2;
const RANK_BITS: u32 = 27;
/// Processes and moments beyond these are taken for them.
const MOST_RANK: u32 = (1 << RANK_BITS) - 1;
const MOST_MOMENT: u64 = (1 << 20) - 1;
/// There is no state that is lacked, or all slots have room.
const NO_SHORTAGE: i64 = i64::MAX;
/// At the places of the text: there is no failure.
const NO_FAILURE: i64 = i64::MAX;

/// What is told in a meeting, by one process or, the least of it, by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Somebody has to stop.
    pub stop: bool,
    /// After how many steps to meet again.
    pub interval: u64,
    /// The newest adjoints.
    pub newest: Versions,
    /// Those of the candidates that are there.
    pub has: Versions,
    /// How many rounds and gatherings were begun of what the processes agree on beside the run; by all, the
    /// most. It is told when the run ends.
    pub rounds: [u64; 2],
    /// There was no room for all states.
    pub shortage: Option<Shortage>,
    /// Who has failed; by all, the first one.
    pub failure: Option<Failure>,
}

/// That a process has no room for as many states as there are slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The lowest state that was not stored for that and is still needed; by all, the least.
    pub lacks: Option<u64>,
    /// For how many states there is room; by all, the least.
    pub room: u64,
}

/// That a process has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, counted in what all do alike since the meeting before: of several, that of the first one is
    /// heard, and of the lowest process among equals.
    moment: u64,
    pub(super) rank: u32,
    why: String,
}

impl Failure {
    /// Who has failed, and why.
    pub(super) fn error(&self) -> Error {
        Error::new(Kind::Internal, format!("process {}: {}", self.rank, self.why))
    }
}

impl Word {
    /// With this process's failure; of a long reason, its beginning.
    pub(super) fn failing(self, moment: u64, rank: u32, why: &str) -> Word {
        let mut end = why.len().min(TEXT * BYTES);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let (moment, rank) = (moment.min(MOST_MOMENT), rank.min(MOST_RANK));
        Word { failure: Some(Failure { moment, rank, why: why[..end].to_owned() }), ..self }
    }

    pub(super) fn encode(&self) -> [i64; HEAD + TEXT] {
        let mut numbers = [NO_FAILURE; HEAD + TEXT];
        numbers[0] = i64::from(!self.stop);
        numbers[1] = i64::try_from(self.interval.max(1)).unwrap_or(i64::MAX);
        let versions = self.newest.into_iter().chain(self.has);
        let versions = versions.map(|version| version.map_or(NONE, i64::from));
        // The most is the least of what is negated.
        let rounds = self.rounds.map(|rounds| -i64::try_from(rounds).unwrap_or(i64::MAX));
        for (number, value) in numbers[2..SHORTAGE].iter_mut().zip(versions.chain(rounds)) {
            *number = value;
        }
        let of_all = |number: u64| i64::try_from(number).unwrap_or(NO_SHORTAGE);
        let (lacks, room) = self.shortage.map_or((None, None), |own| (own.lacks, Some(own.room)));
        numbers[SHORTAGE..HEAD]
            .copy_from_slice(&[lacks, room].map(|number| number.map_or(NO_SHORTAGE, of_all)));
        if let Some(Failure { moment, rank, why }) = &self.failure {
            let who = (*moment << RANK_BITS | u64::from(*rank)) as i64;
            let mut bytes = why.bytes();
            for number in &mut numbers[HEAD..] {
                let mut next = || i64::from(bytes.next().unwrap_or(0));
                *number = (0..BYTES).fold(who, |word, _| word << 8 | next());
            }
        }
        numbers
    }

    /// `None`: it is no word.
    pub(super) fn decode(numbers: &[i64]) -> Option<Word> {
        let (head, text) = numbers.split_at_checked(HEAD).filter(|(_, text)| text.len() == TEXT)?;
        let interval = u64::try_from(head[1]).ok().filter(|interval| *interval > 0)?;
        let failure = (text[0] != NO_FAILURE).then(|| {
            let bytes = text.iter().flat_map(|number| (*number as u16).to_be_bytes());
            let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            let who = text[0] as u64 >> (8 * BYTES);
            let (moment, rank) = (who >> RANK_BITS, who as u32 & MOST_RANK);
            Failure { moment, rank, why: String::from_utf8_lossy(&bytes).into_owned() }
        });
        let version = |at: usize| i32::try_from(head[2 + at]).ok().filter(|v| *v >= 0);
        let newest = std::array::from_fn(version);
        let has = std::array::from_fn(|kind| version(KINDS + kind));
        let rounds = std::array::from_fn(|at| head[2 + 2 * KINDS + at].unsigned_abs());
        let number = |at: usize| u64::try_from(head[at]).ok().filter(|_| head[at] != NO_SHORTAGE);
        let lacks = number(SHORTAGE);
        let shortage = number(SHORTAGE + 1).map(|room| Shortage { lacks, room });
        Some(Word { stop: head[0] == 0, interval, newest, has, rounds, shortage, failure })
    }

    /// The error of a process that hears of a failure.
    pub(super) fn heard(self) -> Result<Word> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error())).map(|()| self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reduction to the least makes of it.
    fn least(words: &[Word]) -> Word {
        let all: Vec<_> = words.iter().map(Word::encode).collect();
        let least = |at: usize| all.iter().map(|numbers| numbers[at]).min().unwrap();
        let least: Vec<i64> = (0..HEAD + TEXT).map(least).collect();
        Word::decode(&least).unwrap()
    }

    fn word(stop: bool, interval: u64, newest: Versions, has: Versions) -> Word {
        Word { stop, interval, newest, has, ..Word::default() }
    }

    #[test]
    fn one_is_enough_to_stop_and_the_least_counts() {
        let all = [
            word(false, 7, [Some(3), None, Some(4)], [Some(1), Some(0), None]),
            word(true, 9, [Some(2), Some(5), Some(4)], [Some(1), None, Some(2)]),
        ];
        assert_eq!(least(&all), word(true, 7, [Some(2), None, Some(4)], [Some(1), None, None]));
        assert_eq!(least(&all[..1]), all[0]);
        let begun = [[7, 0], [5, 9]].map(|rounds| Word { rounds, ..all[0].clone() });
        assert_eq!(least(&begun).rounds, [7, 9]);
        let short = |lacks, room| Some(Shortage { lacks, room });
        let told = [None, short(None, 4), short(Some(0), 9), short(Some(30), 6)];
        let told = told.map(|shortage| Word { shortage, ..all[0].clone() });
        for (one, word) in told.iter().enumerate() {
            assert_eq!(least(&told[one..=one]), *word);
        }
        assert_eq!(least(&told).shortage, short(Some(0), 4));
        // What MPI has not written.
        assert_eq!(Word::decode(&[0; HEAD + TEXT]), None);
    }

    proptest! {
        /// Catches texts of two processes that get mixed up, one that is cut within a letter, and one that
        /// is heard because its process is lower, or its text is, although another has failed before.
        #[test]
        fn of_several_failures_the_first_is_heard(
            whys in prop::collection::btree_map(
                0..=MOST_RANK,
                (prop_oneof![0..4_u64, 0..=MOST_MOMENT, any::<u64>()], "[a-zäß→ ]{1,300}"),
                1..5,
            ),
        ) {
            let failing =
                |(rank, (at, why)): (&u32, &(u64, String))| Word::default().failing(*at, *rank, why);
            let words: Vec<Word> = whys.iter().map(failing).collect();
            let mut all = words.clone();
            all.push(word(true, 4, [None; KINDS], [None; KINDS]));
            let found = least(&all).failure.unwrap();
            let first = words.iter().filter_map(|word| word.failure.clone());
            let first = first.min_by_key(|failure| (failure.moment, failure.rank)).unwrap();
            prop_assert_eq!(&found, &first);
            prop_assert!(whys[&found.rank].1.starts_with(&found.why) && !found.why.is_empty());
            let error = least(&all).heard().unwrap_err().to_string();
            prop_assert_eq!(error, format!("process {}: {}", found.rank, found.why));
        }
    }
}
