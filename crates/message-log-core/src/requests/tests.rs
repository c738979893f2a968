//! The table, compared with the standard library's, and requests that share a handle.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::counting::Counted;
use crate::log::{Call, CallShape};
use crate::target::CallTarget;

/// A request that is recognised by its number.
fn request(began: u64, is_message: bool) -> MpiRequest {
    let shape = CallShape::new(Call("MPI_Irecv"));
    MpiRequest { began, ..MpiRequest::new(shape, CallTarget::Nothing, is_message) }
}

/// The number of a request; of a plain one, its buffer.
fn number_of(request: MpiRequest) -> u64 {
    match request.target {
        CallTarget::Plain { buf, .. } => buf as u64,
        _ => request.began,
    }
}

proptest! {
    /// Few handles, so that they collide.
    #[test]
    fn is_a_table(steps in prop::collection::vec((0..7, 1..200usize), 0..400)) {
        let (mut table, mut model) = (Requests::default(), HashMap::new());
        for (number, (what, handle)) in steps.into_iter().enumerate() {
            // Like addresses.
            let handle = handle << 7;
            let number = number as u64;
            match what {
                0 | 1 => {
                    table.insert(handle, request(number, true)).unwrap();
                    model.insert(handle, (number, false));
                }
                2 => {
                    let call = Call("MPI_Irecv");
                    let buf = number as usize;
                    let counted = Counted::Nothing;
                    let receives = true;
                    let plain = PlainRequest {
                        call,
                        comm: 0,
                        place: 0,
                        receives,
                        buf,
                        count: 1,
                        datatype: 2,
                        counted,
                    };
                    match table.insert_plain_alone(handle) {
                        Some(alone) => *alone = plain,
                        None => drop(table.insert_plain(handle, plain).unwrap()),
                    }
                    model.insert(handle, (number, true));
                }
                3 => {
                    let was_plain = model.get(&handle).is_some_and(|(_, plain)| *plain);
                    let place = table.plain(handle).map(|(place, _)| place);
                    prop_assert_eq!(place.is_some(), was_plain);
                    if let Some(place) = place {
                        table.remove_at(place);
                        model.remove(&handle);
                    }
                }
                4 => {
                    // Added like in a recorded part, into memory of earlier requests.
                    table.reserve().unwrap();
                    prop_assert_eq!(table.has(handle), model.contains_key(&handle));
                    if table.has(handle) || !table.has_room() {
                        continue;
                    }
                    let begun = table.insert_in_room(handle).unwrap();
                    let fresh = MpiRequest::new(begun.shape, CallTarget::Nothing, false);
                    prop_assert_eq!(format!("{:?}", begun), format!("{:?}", fresh));
                    *begun = MpiRequest { persistent: true, cancelled: true, ..request(number, true) };
                    model.insert(handle, (number, false));
                }
                5 => {
                    let is_known = model.get(&handle).is_some_and(|(_, plain)| !plain);
                    let place = table.alone(handle).map(|(place, _)| place);
                    prop_assert_eq!(place.is_some(), is_known);
                    if let Some(place) = place {
                        let number = table.at_mut(place).map(|request| request.began);
                        table.retire_at(place);
                        prop_assert_eq!(number, model.remove(&handle).map(|(number, _)| number));
                    }
                }
                _ => {
                    let gone = table.remove(handle, 0).map(number_of);
                    prop_assert_eq!(gone, model.remove(&handle).map(|(number, _)| number));
                }
            }
            prop_assert_eq!(table.is_empty(), model.is_empty());
            for handle in (1..200).map(|handle| handle << 7) {
                let found = table.get(handle).cloned().map(number_of);
                let known = model.get(&handle).filter(|(_, plain)| !plain);
                prop_assert_eq!(found, known.map(|(number, _)| *number));
            }
            let known = model.values().filter(|(_, plain)| !plain).count();
            prop_assert_eq!(table.iter_mut().count(), known);
        }
        table.expand_all().unwrap();
        for (handle, request) in table.iter_mut() {
            prop_assert_eq!(number_of(request.clone()), model[&handle].0);
        }
    }
}

#[test]
fn requests_that_are_done_at_once_may_share_a_handle() {
    let mut table = Requests::default();
    for began in 1..=3 {
        table.insert(8, request(began, false)).unwrap();
    }
    assert_eq!(table.iter_mut().count(), 3);
    for began in 1..=3 {
        assert_eq!(table.remove(8, 0).map(|request| request.began), Some(began));
    }
    assert!(table.remove(8, 0).is_none() && table.is_empty());
    // A receive has a handle of its own, so the earlier request has completed unnoticed.
    table.insert(8, request(4, false)).unwrap();
    table.insert(8, request(5, true)).unwrap();
    table.insert(8, request(6, false)).unwrap();
    assert_eq!(table.remove(8, 0).map(|request| request.began), Some(6));
    assert!(table.is_empty());
}

/// A send outside parts must not hide a collective call with the same handle, nor be confused with it.
#[test]
fn requests_that_share_a_handle_are_told_apart_by_their_places() {
    let mut table = Requests::default();
    let at = |began, place| MpiRequest { place, ..request(began, false) };
    let send = |place| PlainRequest {
        call: Call("MPI_Isend"),
        comm: 0,
        place,
        receives: false,
        buf: 0,
        count: 1,
        datatype: 2,
        counted: Counted::Nothing,
    };
    assert!(table.insert_plain(8, send(100)).unwrap().is_none());
    table.insert(8, at(1, 200)).unwrap();
    assert!(table.insert_plain(8, send(300)).unwrap().is_none());
    table.insert(8, at(2, 400)).unwrap();
    let began = |request: Option<MpiRequest>| request.map(|request| request.began);
    assert_eq!(began(table.remove(8, 300)), Some(0));
    assert_eq!(began(table.remove(8, 400)), Some(2));
    assert_eq!(began(table.remove(8, 100)), Some(0));
    // The handle was moved: requests are taken in order.
    assert_eq!(began(table.remove(8, 500)), Some(1));
    assert!(table.is_empty());
}
