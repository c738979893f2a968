//! Checkpoints with a mark, and their failures.

use super::world::{world, World, NAME};
use crate::state::*;
use crate::{Level, Part, Region};
use errors::{Error, ErrorKind};

/// Catches a reported failure of a checkpoint that is not needed any more or is retried, and an unreported
/// one of the application's own.
#[test]
fn failures_of_what_is_marked() {
    let mut world = world(0, 40, true, false);
    let fails = |world: &mut World, version: i32, marked: bool| {
        let new = world.state.captures().open(NAME, version);
        let room = world.state.captures().reserve(new, Part::Host, 8, Level::HOST);
        assert!(matches!(room, Reserve::Got { .. }), "{room:?}");
        if marked {
            world.state.captures().mark(new, -3);
        }
        let region = Region { id: -3, size: 8, part: Part::Host, offset: 0, decoded: None };
        world.state.captures().commit(new, vec![region], false);
        let job = world.state.down().next_write().unwrap();
        world
            .state
            .down()
            .write_done(&job, Err(Error::new(ErrorKind::System, format!("refused {version}"))));
    };
    fails(&mut world, 1, true);
    assert!(world.state.take_failure().unwrap().to_string().contains("refused 1"));
    fails(&mut world, 2, true);
    fails(&mut world, 3, true);
    fails(&mut world, 4, false);
    // The error for a full level names the cause.
    let more = world.state.captures().open(NAME, 5);
    let room = world.state.captures().reserve(more, Part::Host, 12, Level::HOST);
    assert!(matches!(&room, Reserve::Never(e) if e.to_string().contains("refused 4")), "{room:?}");
    world.state.removal().withdraw(NAME, 2);
    let failure = world.state.take_failure().unwrap().to_string();
    assert!(failure.contains("refused 3 (and 1 more)"), "{failure}");
    assert_eq!(world.state.take_failure(), None);
    assert!(world.state.unwritten().unwrap().to_string().contains("version 1"));
    // The dropped checkpoint has made room.
    assert!(matches!(
        world.state.captures().reserve(more, Part::Host, 12, Level::HOST),
        Reserve::Got { .. }
    ));
    world.state.captures().abort(more);
    world.state.check().unwrap();
    fails(&mut world, 6, true);
    world.state.retry();
    assert_eq!(world.state.take_failure(), None);
    assert!(world.state.down().next_write().is_some());
}
