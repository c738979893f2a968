//! Writing and reading without MPI. The random histories of `parts/tests.rs` also write and read the log.

use std::collections::HashMap;
use std::ffi::c_int;
use std::rc::Rc;

use message_abi::log::ProtectedRange;
use proptest::prelude::*;

use super::bytes::{reseal, NumberReader, Result};
use super::chunks::Incoming;
use super::comms::{
    CommTraits, CommunicatorHandles, CommunicatorNumbers, Communicators, Predefined, Topologies,
};
use super::layout::GappedTypes;
use super::pack::{self, Head, PackedLog};
use super::settled::SettledPosition;
use super::targets::ProtectedRanges;
use super::unpack::{self, Unpacked};
use crate::log::{Arena, Call, CallOutcome, CallShape, Item, Items};
use crate::parts::{Parts, KEEP, RESEND};
use crate::resend::closed::{ClosedMessages, Route};
use crate::resend::streams::MessageLink;
use crate::resend::verdicts::CheckpointOrigin;
use crate::status::StatusBytes;
use crate::target::{CallTarget, Datatype, ElementBlock};

/// Types without gaps, of which MPI knows no more than the log.
struct Dense;

impl GappedTypes for Dense {
    fn places(&self, _: &Datatype) -> Option<(i64, Vec<u64>)> {
        None
    }

    fn with_gaps(&self, properties: Datatype, _: &[(i64, i64)]) -> Datatype {
        properties
    }
}

const PREDEFINED: Predefined = Predefined {
    world: 2,
    own: 3,
    null: 1,
    no_proc: 6,
    topologies: Topologies { none: -32766, cart: 1, graph: 2, dist_graph: 3 },
};

const SETTLED: SettledPosition = SettledPosition {
    origin: CheckpointOrigin { run: u64::MAX, boundaries: 6, begun: 3 },
    settled: 2,
    dropped: 4,
    resent: 5,
};

const HEAD: Head =
    Head { lineage: [7, 9], abi: 1, status: 20, rank: 1, processes: 2, resend: Some(SETTLED) };

/// Communicators with these handles.
fn comms(handles: &[usize]) -> Communicators {
    let mut comms = Communicators::default();
    for (size, &handle) in handles.iter().enumerate() {
        comms.insert(handle, CommTraits { size: size as c_int, ..CommTraits::default() });
    }
    comms
}

fn packed(parts: &Parts, made: &Communicators, regions: &[ProtectedRange]) -> Result<PackedLog> {
    pack::pack(
        &HEAD,
        parts,
        &CommunicatorNumbers::new(PREDEFINED, made),
        &Dense,
        ProtectedRanges(regions),
    )
}

fn unpacked(sealed: &[u8], made: &Communicators, regions: &[ProtectedRange]) -> Result<Unpacked> {
    unpacked_beside(sealed, &[], made, regions)
}

/// The parts of sealed bytes, with the chunks that are stored beside them.
fn unpacked_beside(
    sealed: &[u8],
    chunks: &[Vec<u8>],
    made: &Communicators,
    regions: &[ProtectedRange],
) -> Result<Unpacked> {
    let mut from = NumberReader::open(sealed)?;
    let head = Head::read(&mut from)?;
    let mut incoming = Incoming::expected(&mut from, Arena::default())?;
    for bytes in chunks {
        let at = incoming.place(bytes.len())?;
        // SAFETY: there is room for these bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    }
    let mut from = NumberReader::open(sealed)?;
    Head::read(&mut from)?;
    let chunks = incoming.complete(&mut from)?;
    let handles = CommunicatorHandles::read(&mut from, PREDEFINED, made)?;
    let mut unpacked =
        unpack::unpack(from, &head, &handles, &Dense, ProtectedRanges(regions), chunks)?;
    if let Some(SettledPosition { origin, settled, .. }) = head.resend {
        assert!(settled <= origin.begun);
        unpacked.parts.resume(settled, origin.boundaries);
    }
    Ok(unpacked)
}

/// The chunks stored beside the bytes.
fn beside(packed: &mut PackedLog) -> Vec<Vec<u8>> {
    packed.chunks.drain(..).map(|source| source.bytes().to_vec()).collect()
}

/// These parts in a restarted process.
pub(crate) fn moved(parts: &Parts) -> Unpacked {
    read(&written(parts))
}

/// A checkpoint's log: its bytes, and the chunks beside them.
pub(crate) fn written(parts: &Parts) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut packed = packed(parts, &comms(&[]), &[]).unwrap();
    assert_eq!(packed.lost, None);
    let chunks = beside(&mut packed);
    (packed.bytes, chunks)
}

/// Reads the parts from such a log.
pub(crate) fn read((log, chunks): &(Vec<u8>, Vec<Vec<u8>>)) -> Unpacked {
    unpacked_beside(log, chunks, &comms(&[]), &[]).unwrap()
}

/// A type without gaps.
fn doubles() -> Rc<Datatype> {
    Rc::new(Datatype { handle: 0, size: 8, extent: 8, lb: 0, is_dense: true, owned: None })
}

fn shape(call: &'static str, comm: usize, tag: c_int) -> CallShape {
    CallShape {
        comm,
        tag: Some(tag),
        peer: Some(0),
        count: 3,
        size: 8,
        ..CallShape::new(Call(call))
    }
}

fn item(arena: &mut Arena, len: usize, began: u64, target: CallTarget) -> Item {
    let fill = |bytes: &mut [u8]| {
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        Ok(())
    };
    let payload = arena.keep(len, fill).unwrap();
    let item = Item::new(StatusBytes::of_slice(&[3; 20]), target, payload);
    Item { began, index: 1, link: Some(MessageLink { stream: 2, number: began }), ..item }
}

/// Parts of every kind, one recorded and one replayed. `target` is that of a request begun before the part.
fn sample(target: &CallTarget) -> (Parts, Arena) {
    sample_with(target, 300)
}

/// Parts of every kind, as in [`sample`], with a message of `large` bytes.
fn sample_with(target: &CallTarget, large: usize) -> (Parts, Arena) {
    let (mut parts, mut arena) = (Parts::default(), Arena::default());
    let outside = parts.begin_number();
    parts.begin(1, KEEP).unwrap();
    parts.record(shape("MPI_Send", 2, 4), CallOutcome::of(0)).unwrap();
    let items = Items::One(item(&mut arena, 24, outside, target.clone()));
    parts
        .record(
            CallShape::of_requests(Call("MPI_Wait"), 1),
            CallOutcome { items, ..CallOutcome::of(0) },
        )
        .unwrap();
    parts.begin(2, RESEND).unwrap();
    let began = parts.begin_number();
    parts.record(shape("MPI_Irecv", 40, -1), CallOutcome { began, ..CallOutcome::of(0) }).unwrap();
    let many = [
        item(&mut arena, large, began, CallTarget::Nothing),
        item(&mut arena, 0, 0, CallTarget::Nothing),
    ];
    let items = Items::Many(many.into());
    parts
        .record(
            CallShape::of_requests(Call("MPI_Waitall"), 2),
            CallOutcome { items, ..CallOutcome::of(0) },
        )
        .unwrap();
    for _ in 0..3 {
        parts.record(shape("MPI_Iprobe", 41, 9), CallOutcome::of(0)).unwrap();
    }
    parts
        .record(shape("MPI_Comm_dup", 2, 0), CallOutcome { handle: 41, ..CallOutcome::of(0) })
        .unwrap();
    parts.end(2).unwrap();
    parts.end(1).unwrap();
    let closed = ClosedMessages {
        number: 1,
        received: HashMap::from_iter([(2, (0..5, Route { peer: 0, tag: 7 }))]),
        sent: HashMap::from_iter([(0, (1..2, Route { peer: 0, tag: 8 }))]),
    };
    let number = parts.instances.all[1].number;
    parts.close(number, &Rc::new(closed));
    parts.drop_settled(SETTLED.settled);
    parts.begin(3, 0).unwrap();
    parts
        .record(shape("MPI_Mprobe", 3, 0), CallOutcome { handle: 6, ..CallOutcome::of(0) })
        .unwrap();
    parts.replay_begin(1).unwrap();
    parts.next(&shape("MPI_Send", 2, 4)).unwrap();
    parts.begin(4, 0).unwrap();
    parts.next(&CallShape::of_requests(Call("MPI_Wait"), 1)).unwrap();
    (parts, arena)
}

/// The content of parts without handles and addresses.
fn text(parts: &Parts) -> String {
    let rows = |closed: &ClosedMessages| {
        let of = |table: &HashMap<_, _, _>| {
            let mut rows: Vec<_> = table.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows.concat()
        };
        format!("{} {} {}", closed.number, of(&closed.sent), of(&closed.received))
    };
    let bytes = |event: &crate::log::LogEvent| {
        let items = event.outcome.items.as_slice().iter();
        items.map(|item| item.payload.bytes().to_vec()).collect::<Vec<_>>()
    };
    let log: Vec<_> =
        parts.log.events.iter().map(|event| format!("{event:?} {:?}", bytes(event))).collect();
    let closed: Vec<_> =
        parts.instances.all.iter().map(|one| one.closed.as_deref().map(rows)).collect();
    let instances = parts.instances.all.iter().map(|one| {
        let around = &one.around;
        format!(
            "{} {} {} {:?} {:?} {} {around:?}",
            one.id, one.flags, one.number, one.begin, one.end, one.begun
        )
    });
    let instances: Vec<_> = instances.collect();
    let (open, replaced) = (&parts.open.0, parts.replaced.len());
    let counts = (parts.instances.now, parts.begun, parts.log.next, parts.log.figures);
    format!("{log:?}\n{instances:?}\n{closed:?}\n{open:?}\n{replaced}\n{counts:?}")
}

/// Catches values that are not written, or read differently.
#[test]
fn a_log_is_the_same_elsewhere() {
    let (parts, _arena) = sample(&CallTarget::Nothing);
    let made = comms(&[40, 41]);
    let packed = packed(&parts, &made, &[]).unwrap();
    assert_eq!(packed.lost, None);
    assert_eq!(Head::read(&mut NumberReader::open(&packed.bytes).unwrap()), Ok(HEAD));
    let there = unpacked(&packed.bytes, &made, &[]).unwrap();
    assert_eq!(text(&there.parts), text(&parts));
}

/// Catches a chunk that is packed although it is stored beside the bytes, one that is confused with another,
/// a damaged one that is accepted, and an offset outside of it.
#[test]
fn large_chunks_go_beside_the_bytes() {
    let (parts, _arena) = sample_with(&CallTarget::Nothing, 200_000);
    let made = comms(&[40, 41]);
    let mut packed = packed(&parts, &made, &[]).unwrap();
    let chunks = beside(&mut packed);
    assert!(chunks.len() == 1 && chunks[0].len() > 200_000 && packed.bytes.len() < 4000);
    let there = unpacked_beside(&packed.bytes, &chunks, &made, &[]).unwrap();
    assert_eq!(text(&there.parts), text(&parts));
    let wrong = |chunks: &[Vec<u8>]| {
        let error = unpacked_beside(&packed.bytes, chunks, &made, &[]).unwrap_err();
        assert!(error.contains("damaged"), "{error}");
    };
    wrong(&[]);
    wrong(&[chunks[0].clone(), chunks[0].clone()]);
    wrong(&[chunks[0][1..].to_vec()]);
    let mut changed = chunks[0].clone();
    changed[100_000] ^= 1;
    wrong(&[changed]);
}

/// Catches handles that are used unchanged.
#[test]
fn communicators_have_the_handles_of_the_new_process() {
    let (parts, _arena) = sample(&CallTarget::Nothing);
    let packed = packed(&parts, &comms(&[40, 41]), &[]).unwrap();
    let there = unpacked(&packed.bytes, &comms(&[90, 91]), &[]).unwrap().parts;
    let comms: Vec<usize> = there.log.events.iter().map(|event| event.shape.comm).collect();
    assert_eq!(comms, [2, 0, 90, 0, 91, 2, 3]);
    let given: Vec<usize> = there.log.events.iter().map(|event| event.outcome.handle).collect();
    assert_eq!(given, [0, 0, 0, 0, 0, 91, 6]);
    let missing = unpacked(&packed.bytes, &self::comms(&[90]), &[]).unwrap_err();
    assert!(missing.contains("communicator 2"), "{missing}");
    let unknown = self::packed(&parts, &self::comms(&[40]), &[]).unwrap_err();
    assert!(unknown.contains("MPI_Iprobe") && unknown.contains("0x29"), "{unknown}");
}

/// Catches an address of the old process, and one near the region's end.
#[test]
fn what_is_protected_is_found_again() {
    let region = |id, address, len| ProtectedRange { id, address, len };
    let target = |buf| CallTarget::One(ElementBlock { buf, count: 3, datatype: doubles() });
    let buffers = |bytes: &[u8], regions: &[ProtectedRange]| {
        let parts = unpacked(bytes, &comms(&[40, 41]), regions).unwrap().parts;
        match &parts.log.events[1].outcome.items.as_slice()[0].target {
            CallTarget::One(block) => Some((block.buf, block.count)),
            CallTarget::Lost => None,
            other => panic!("{other:?}"),
        }
    };
    let then = [region(1, 1000, 64), region(5, 2000, 100)];
    let (parts, _arena) = sample(&target(2076));
    let known = packed(&parts, &comms(&[40, 41]), &then).unwrap();
    assert_eq!(known.lost, None);
    assert_eq!(buffers(&known.bytes, &[region(5, 7000, 100)]), Some((7076, 3)));
    assert_eq!(buffers(&known.bytes, &[region(5, 7000, 99)]), None);
    assert_eq!(buffers(&known.bytes, &[region(1, 7000, 100)]), None);
    let (parts, _arena) = sample(&target(2077));
    let lost = packed(&parts, &comms(&[40, 41]), &then).unwrap();
    assert_eq!(lost.lost, Some("MPI_Wait"));
    assert_eq!(buffers(&lost.bytes, &then), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Catches unchecked numbers: changed bytes with a correct digest are an error, or a log that can be used
    /// and dropped.
    #[test]
    fn changed_bytes_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        is_large: bool,
    ) {
        type Good = [(Vec<u8>, Vec<Vec<u8>>); 2];
        thread_local! {
            static GOOD: Good = [300, 70_000].map(|large| {
                let (parts, _arena) = sample_with(&CallTarget::Nothing, large);
                let mut packed = packed(&parts, &comms(&[40, 41]), &[]).unwrap();
                let chunks = beside(&mut packed);
                (packed.bytes, chunks)
            });
        }
        let (mut bytes, chunks) = GOOD.with(|good| good[usize::from(is_large)].clone());
        for (at, byte) in changes {
            // Most bytes are payload, where a change does nothing; the first bytes are changed as often.
            let at = at.index(2 * bytes.len());
            let at = if at >= bytes.len() { at % 400 } else { at };
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            let len = 40 + cut.index(bytes.len() - 40);
            bytes.truncate(len);
        }
        reseal(&mut bytes);
        if let Ok(unpacked) = unpacked_beside(&bytes, &chunks, &comms(&[40, 41]), &[]) {
            let mut parts = unpacked.parts;
            let _ = parts.next(&CallShape::of_requests(Call("MPI_Wait"), 1));
            let _ = parts.next(&shape("MPI_Send", 2, 4));
            parts.record(shape("MPI_Send", 2, 4), CallOutcome::of(0)).unwrap();
            for id in [4, 1, 3, 2] {
                let _ = (parts.end(id), parts.replay_end(id), parts.replay_begin(id));
            }
            parts.clear();
        }
    }
}
