//! `ours` beside itself: touching and registration (figure 5c), and further settings.

use crate::bench::plan::{ApproachName, Plan};
use crate::bench::plot::group::{groups, Field, Group, Series};
use crate::bench::plot::pool::Pool;
use crate::bench::plot::sheet::Key;
use crate::bench::plot::style::Style;

use super::blocked::{compare, Blocked, INTERVALS};
use super::{interval, Album};

/// Fixed where touching and registration vary.
const OVER_VARIANTS: &[Field] = &[
    Field::Configuration,
    Field::Processes,
    Field::Sizes,
    Field::Compute,
    Field::DeviceCache,
    Field::HostCache,
    Field::Order,
    Field::Verify,
    Field::Settings,
];

/// Fixed where further settings vary.
const OVER_SETTINGS: &[Field] = &[
    Field::Configuration,
    Field::Processes,
    Field::Sizes,
    Field::Compute,
    Field::DeviceCache,
    Field::HostCache,
    Field::Order,
    Field::Verify,
    Field::Variant,
];

/// The order of values in legends; others come last.
const PINS: [&str; 4] = ["serial", "parallel", "chunked", "off"];
const TOUCHES: [&str; 3] = ["sequential", "concurrent", "auto"];

/// Figure 5c, and the same for what else was set.
pub fn add(pool: &Pool, album: &mut Album) {
    let title = "5c: blocked by checkpoints and restores, by touch and pin";
    let name = "5c-touch-and-pin";
    let key = |_: usize, plan: &Plan| {
        let (pin, touch) = places(plan);
        Key::area(Field::Variant.text(plan), Style::pair(pin, touch))
    };
    if !draw(pool, album, (title, name), OVER_VARIANTS, &[Field::Variant], key) {
        album.miss("5c", "no setup was measured with several values of touch or pin");
    }
    let title = "Blocked by checkpoints and restores, by setting";
    let key = |number: usize, plan: &Plan| {
        let text = match plan.settings.is_empty() {
            true => "defaults".to_owned(),
            false => Field::Settings.text(plan),
        };
        Key::area(text, Style::number(number))
    };
    if !draw(pool, album, (title, "settings"), OVER_SETTINGS, &[Field::Settings], key) {
        album.miss("settings", "no setup was measured with several settings of the library");
    }
}

/// Where the values of pin and touch stand in their orders.
fn places(plan: &Plan) -> (usize, usize) {
    let place = |names: &[&str], name: &str| {
        names.iter().position(|known| *known == name).unwrap_or(names.len())
    };
    (place(&PINS, &plan.pin), place(&TOUCHES, &plan.touch))
}

/// Returns whether there was anything to draw.
fn draw(
    pool: &Pool,
    album: &mut Album,
    (title, name): (&str, &str),
    fixed: &'static [Field],
    apart: &'static [Field],
    key: impl Fn(usize, &Plan) -> Key,
) -> bool {
    let ours = pool.measurements.iter().filter(|member| member.plan.approach == ApproachName::Ours);
    let mut found = groups(ours, fixed);
    found.retain(|group| group.worked().next().is_some() && compared(group, apart).len() > 1);
    for group in &found {
        let mut series = compared(group, apart);
        series.sort_by_key(|one| places(&one.members[0].plan));
        let keys = series.iter().enumerate();
        let keyed = keys.map(|(number, one)| (key(number, &one.members[0].plan), one)).collect();
        let sheet =
            compare(pool, title.to_owned(), group.facts(), &INTERVALS, Blocked::Both, keyed);
        album.push(format!("{name}{}", group.slug(&found)), sheet);
    }
    !found.is_empty()
}

/// The series of a group, less the points that have nothing beside them.
fn compared<'a>(group: &Group<'a>, apart: &'static [Field]) -> Vec<Series<'a>> {
    let all = group.variants(apart);
    let there = |place: f64| all.iter().filter(|one| one.at(interval, place).is_some()).count();
    let mut series = all.clone();
    for one in &mut series {
        one.members.retain(|member| there(interval(&member.plan)) > 1);
    }
    series.retain(|one| !one.members.is_empty());
    series
}
