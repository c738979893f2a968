//! Which pictures there are, and what each is made of.
//!
//! | file | figures |
//! | --- | --- |
//! | `blocked` | 3b, 3c, 4b, 4c, 5a, 5b (by interval), 6a, 6b (by processes), 6c (by host buffer) |
//! | `settings` | 5c (touch and pin), and further settings |
//! | `sizes` | 3a |
//! | `initialisation` | 4a |
//! | `causes` | why the application was blocked |
//! | `detail` | disturbance, each checkpoint, hops |

use crate::bench::plan::{ApproachName, Plan};
use crate::bench::results::{Figures, Measurement};
use crate::bench::table::absent;

use super::group::{groups, Field, Group, Series};
use super::pool::Pool;
use super::sheet::{Key, Panel, Sheet};
use super::style::Style;

mod blocked;
mod causes;
mod detail;
mod initialisation;
mod settings;
mod sizes;

/// What came of one device's results.
#[derive(Debug, Default)]
pub struct Album {
    /// The pictures with the names of their files.
    pub pictures: Vec<(String, Sheet)>,
    /// Figures that are not among them, each with the reason.
    pub missing: Vec<String>,
}

impl Album {
    /// Adds a picture. Setups that differ in what a name does not tell are numbered.
    fn push(&mut self, name: String, sheet: Sheet) {
        let taken = |name: &String| self.pictures.iter().any(|(known, _)| known == name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name));
        self.pictures.push((free.unwrap_or(name), sheet));
    }

    fn miss(&mut self, figure: &str, why: &str) {
        self.missing.push(format!("{figure}: {why}"));
    }
}

/// Everything that these results have in them.
pub fn all(pool: &Pool) -> Album {
    let mut album = Album::default();
    sizes::add(pool, &mut album);
    initialisation::add(pool, &mut album);
    blocked::add(pool, &mut album);
    settings::add(pool, &mut album);
    detail::add(pool, &mut album);
    album
}

/// A picture without its panels, legend and facts of its own.
fn sheet(pool: &Pool, title: &str, facts: Vec<String>) -> Sheet {
    let mut all = vec![pool.device.clone()];
    all.extend(facts);
    Sheet {
        title: title.to_owned(),
        facts: all,
        origin: pool.origin(),
        warnings: pool.warnings.clone(),
        keys: Vec::<Key>::new(),
        panels: Vec::<Panel>::new(),
    }
}

/// What a picture of `ours` says of its settings.
fn settings_of(series: &[Series]) -> Option<String> {
    let ours = series.iter().find(|series| series.approach == ApproachName::Ours)?;
    let plan = &ours.members.first()?.plan;
    let mut text = format!("ours: {}", Field::Variant.text(plan));
    if !plan.settings.is_empty() {
        text.push_str(", ");
        text.push_str(&Field::Settings.text(plan));
    }
    Some(text)
}

/// What a picture must not hide: restored versions with wrong bytes.
fn wrong<'a>(members: impl IntoIterator<Item = &'a Measurement>) -> Option<String> {
    let runs = members.into_iter().flat_map(|member| &member.runs);
    let versions: u64 = runs.flat_map(|run| &run.processes).map(|f| f.wrong_versions).sum();
    (versions > 0).then(|| format!("{versions} restored versions had wrong bytes"))
}

/// How much of what a picture is about was measured, and why some of it was not.
fn extent<'a>(members: impl IntoIterator<Item = &'a Measurement> + Clone) -> Vec<String> {
    /// Failures that a heading has room for.
    const MOST: usize = 3;
    let mut facts = vec![absent::count(members.clone())];
    facts.extend(absent::reasons(members.clone()));
    let failures = absent::failures(members);
    facts.extend(failures.iter().take(MOST).cloned());
    if failures.len() > MOST {
        facts.push(format!("and {} more failures", failures.len() - MOST));
    }
    facts
}

/// The entry of a series that is an approach.
fn key_of(series: &Series) -> Key {
    Key::area(series.approach.text(), Style::of(series.approach))
}

/// Setups worth a picture along an axis: those that were planned at several places of it, by what the
/// picture shows, and of which anything was measured.
fn along<'a>(
    members: impl IntoIterator<Item = &'a Measurement>,
    fixed: &'static [Field],
    along: impl Fn(&Plan) -> f64,
) -> Vec<Group<'a>> {
    let mut found = groups(members, fixed);
    let is_swept = |group: &Group| {
        let members = group.approaches().into_iter().flat_map(|series| series.members);
        let places: Vec<f64> = members.map(|member| along(&member.plan)).collect();
        places.iter().any(|place| *place != places[0])
    };
    found.retain(|group| is_swept(group) && group.worked().next().is_some());
    found
}

/// The compute interval.
fn interval(plan: &Plan) -> f64 {
    plan.interval_ms
}

/// The mean over the processes and the median over the repeats, if there is any.
fn median(member: &Measurement, figure: impl Fn(&Figures) -> f64) -> Option<f64> {
    member.spread(figure).map(|spread| spread.median)
}
