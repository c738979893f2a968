//! Checkpoints that somebody manages for the application, and what has failed of them.

use super::world::{world, World, NAME};
use crate::catalog::entry::{FileTier, Part, Region, Tier};
use crate::catalog::state::*;
use crate::error::{Error, Kind};

/// Catches a run that ends by a failure that somebody else has heard of, and an application that is
/// not told of its own.
#[test]
fn who_manages_checkpoints_hears_of_their_failures() {
    let mut world = world(0, 40, true, false);
    let fails = |world: &mut World, version: i32, managed: bool| {
        let new = world.state.open(NAME, version);
        let room = world.state.reserve(new, Part::Host, 8, Tier::Host);
        assert!(matches!(room, Reserve::Got { .. }), "{room:?}");
        if managed {
            world.state.mark(new, -3);
        }
        let region = Region { id: -3, size: 8, part: Part::Host, offset: 0 };
        world.state.commit(new, vec![region], false);
        let job = world.state.next_write().unwrap();
        world.state.write_done(&job, Err(Error::new(Kind::System, format!("refused {version}"))));
    };
    fails(&mut world, 1, true);
    assert!(world.state.take_failure().unwrap().to_string().contains("refused 1"));
    world.state.manage(true);
    fails(&mut world, 2, true);
    fails(&mut world, 3, true);
    fails(&mut world, 4, false);
    // What keeps others out is named with its cause.
    let more = world.state.open(NAME, 5);
    let room = world.state.reserve(more, Part::Host, 12, Tier::Host);
    assert!(matches!(&room, Reserve::Never(e) if e.to_string().contains("refused 4")), "{room:?}");
    assert!(world.state.take_failure().unwrap().to_string().contains("refused 4"));
    assert_eq!(world.state.take_failure(), None);
    assert!(world.state.unwritten().unwrap().to_string().contains("version 4"));
    let setback = world.state.take_setback().unwrap();
    assert_eq!(setback.tier, Some(FileTier::Scratch));
    assert!(setback.cause.to_string().contains("refused 2"));
    assert_eq!(world.state.take_setback(), None);
    // What nobody needs gives way.
    world.state.withdraw_unwritten(NAME, |version| version == 2);
    assert!(matches!(world.state.reserve(more, Part::Host, 12, Tier::Host), Reserve::Got { .. }));
    world.state.manage(false);
    assert!(world.state.unwritten().unwrap().to_string().contains("version 1"));
    world.state.check().unwrap();
    // What has failed when nobody managed it, and is not needed any more, is nobody's.
    world.state.abort(more);
    fails(&mut world, 6, true);
    fails(&mut world, 6, true);
    world.state.withdraw(NAME, 6);
    assert_eq!(world.state.take_failure(), None);
    // Neither is what has failed behind one run of the next one, which tries again what it needs.
    fails(&mut world, 7, true);
    world.state.manage(true);
    assert_eq!(world.state.take_failure(), None);
}
