//! `ours` beside itself: touching and registration (figure 5c), and further settings.

use crate::bench::plan::{ApproachName, Plan};
use crate::bench::plot::group::{groups, Field, Series};
use crate::bench::plot::pool::Pool;
use crate::bench::plot::sheet::Key;
use crate::bench::plot::style::Style;

use super::blocked::{compare, Blocked, INTERVALS};
use super::Album;

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

/// Figure 5c, and the same for what else was set.
pub fn add(pool: &Pool, album: &mut Album) {
    let combinations = |series: &[Series]| -> Vec<Key> {
        let plans = || series.iter().map(|one| &one.members[0].plan);
        let place = |value: fn(&Plan) -> &String, plan| {
            let mut seen: Vec<&String> = Vec::new();
            for plan in plans() {
                if !seen.contains(&value(plan)) {
                    seen.push(value(plan));
                }
            }
            seen.iter().position(|known| *known == value(plan)).unwrap_or(0)
        };
        plans()
            .map(|plan| {
                let style = Style::pair(place(|p| &p.pin, plan), place(|p| &p.touch, plan));
                Key::area(Field::Variant.text(plan), style)
            })
            .collect()
    };
    let settings = |series: &[Series]| -> Vec<Key> {
        let text = |one: &Series| match Field::Settings.text(&one.members[0].plan) {
            none if none.is_empty() => "defaults".to_owned(),
            some => some,
        };
        let numbered = series.iter().enumerate();
        numbered.map(|(number, one)| Key::area(text(one), Style::number(number))).collect()
    };
    let title = "5c  Blocked by checkpoints and restores, by touch and pin";
    let name = "5c-touch-and-pin";
    if !draw(pool, album, (title, name), OVER_VARIANTS, &[Field::Variant], combinations) {
        album.miss("5c", "no setup was measured with several values of touch or pin");
    }
    let title = "Blocked by checkpoints and restores, by setting";
    draw(pool, album, (title, "settings"), OVER_SETTINGS, &[Field::Settings], settings);
}

/// Returns whether there was anything to draw.
fn draw(
    pool: &Pool,
    album: &mut Album,
    (title, name): (&str, &str),
    fixed: &'static [Field],
    apart: &'static [Field],
    keys: impl Fn(&[Series]) -> Vec<Key>,
) -> bool {
    let ours = pool
        .measurements
        .iter()
        .filter(|member| member.plan.approach == ApproachName::Ours && !member.runs.is_empty());
    let mut found = groups(ours, fixed);
    found.retain(|group| group.variants(apart).len() > 1);
    for group in &found {
        let series = group.variants(apart);
        let keyed = keys(&series).into_iter().zip(&series).collect();
        let sheet =
            compare(pool, title.to_owned(), group.facts(), &INTERVALS, Blocked::Both, keyed);
        album.pictures.push((format!("{name}{}", group.slug(&found)), sheet));
    }
    !found.is_empty()
}
