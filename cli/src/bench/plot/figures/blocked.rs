//! How long the application was blocked, approach beside approach.

use crate::bench::plan::{ApproachName, Configuration, Plan};
use crate::bench::plot::bars::{Bar, Bars};
use crate::bench::plot::group::{
    groups, uniform, Group, Series, OVER_HOST_CACHES, OVER_HOST_CACHES_AND_COUNTS, OVER_INTERVALS,
    OVER_PROCESSES,
};
use crate::bench::plot::pool::Pool;
use crate::bench::plot::scale::{bytes, digits, unit, Axis, Scale};
use crate::bench::plot::sheet::{Key, Panel, Sheet};
use crate::bench::results::{Figures, Floor, Measurement, Spread};
use crate::bench::table::absent::{self, Absent};

use super::{along, extent, interval, key_of, median, settings_of, sheet, wrong, Album};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Checkpoints and what comes before the first.
    Checkpoints,
    /// The same and restores.
    Both,
}

impl Blocked {
    fn of(self, figures: &Figures) -> f64 {
        match self {
            Blocked::Checkpoints => figures.checkpoint_total(),
            Blocked::Both => figures.total(),
        }
    }

    /// The least that it could be, in seconds: each byte is copied once, or there and back.
    fn floor(self, floor: &Floor) -> f64 {
        match self {
            Blocked::Checkpoints => floor.median,
            Blocked::Both => 2.0 * floor.median,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Blocked::Checkpoints => "blocked by checkpoints",
            Blocked::Both => "blocked by checkpoints and restores",
        }
    }

    fn floor_title(self) -> &'static str {
        match self {
            Blocked::Checkpoints => "floor: bare copies",
            Blocked::Both => "floor: copies there and back",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Blocked::Checkpoints => "checkpoints",
            Blocked::Both => "checkpoints-and-restores",
        }
    }
}

/// The axis along which points are compared.
pub struct Along {
    /// What it shows.
    pub title: &'static str,
    /// A plan's place on it.
    pub value: fn(&Plan) -> f64,
    /// The text of a plan's place.
    pub text: fn(&Plan) -> String,
}

/// By compute interval.
pub const INTERVALS: Along = Along {
    title: "compute interval (ms)",
    value: interval,
    text: |plan| plan.interval_ms.to_string(),
};

const PROCESSES: Along = Along {
    title: "processes",
    value: |plan| f64::from(plan.processes),
    text: |plan| plan.processes.to_string(),
};

const HOST_CACHES: Along = Along {
    title: "host buffer of each process",
    value: |plan| plan.host_cache as f64,
    text: |plan| bytes(plan.host_cache),
};

/// The same where the number of checkpoints follows the host buffer.
const HOST_CACHES_AND_COUNTS: Along = Along {
    title: "host buffer and checkpoints of each process",
    text: |plan| format!("{}, {} checkpoints", bytes(plan.host_cache), plan.sizes_of(0).len()),
    ..HOST_CACHES
};

/// Figures 3b, 3c, 4b, 4c, 5a, 5b, 6a, 6b, 6c.
pub fn add(pool: &Pool, album: &mut Album) {
    use Blocked::{Both, Checkpoints};
    let large_host = |m: &&Measurement| m.plan.configuration == Configuration::LargeHost;
    let large_device = |m: &&Measurement| !large_host(m);
    let all = || pool.measurements.iter();
    let host = || all().filter(large_host);
    let variable: Vec<_> = host().filter(|m| !uniform(&m.plan)).collect();
    let even: Vec<_> = host().filter(|m| uniform(&m.plan)).collect();
    let device: Vec<_> = all().filter(large_device).collect();
    by_interval(pool, album, &variable, [("3b", Checkpoints), ("3c", Both)]);
    by_interval(pool, album, &device, [("4b", Checkpoints), ("4c", Both)]);
    by_interval(pool, album, &even, [("5a", Checkpoints), ("5b", Both)]);
    let found = along(all(), OVER_PROCESSES, PROCESSES.value);
    draw(pool, album, &found, &PROCESSES, &[("6a", Checkpoints), ("6b", Both)]);
    if found.is_empty() {
        album.miss("6a, 6b", "no setup was measured with several numbers of processes");
    }
    by_host_cache(pool, album, &host().collect::<Vec<_>>());
}

/// Figure 6c: with the same checkpoints in each buffer; if nobody measured that, with as many as
/// each buffer holds.
fn by_host_cache(pool: &Pool, album: &mut Album, members: &[&Measurement]) {
    let figure = [("6c", Blocked::Both)];
    let same = along(members.iter().copied(), OVER_HOST_CACHES, HOST_CACHES.value);
    draw(pool, album, &same, &HOST_CACHES, &figure);
    if !same.is_empty() {
        return;
    }
    let members = members.iter().copied();
    let mut following = along(members, OVER_HOST_CACHES_AND_COUNTS, HOST_CACHES.value);
    following.retain(|group| {
        let counts = group.members.iter().map(|m| (m.plan.host_cache, m.plan.sizes_of(0).len()));
        let mut counts: Vec<(u64, usize)> = counts.collect();
        counts.sort_unstable();
        counts.dedup();
        counts.windows(2).all(|two| two[0].0 != two[1].0)
    });
    draw(pool, album, &following, &HOST_CACHES_AND_COUNTS, &figure);
    if following.is_empty() {
        album.miss("6c", "no setup was measured with several sizes of the host buffer");
    }
}

fn by_interval(
    pool: &Pool,
    album: &mut Album,
    members: &[&Measurement],
    figures: [(&str, Blocked); 2],
) {
    let found = intervals(members.iter().copied());
    draw(pool, album, &found, &INTERVALS, &figures);
    if found.is_empty() {
        let why = match members.is_empty() {
            true => "no such setup was planned".to_owned(),
            false => absent::count(members.iter().copied()),
        };
        album.miss(&figures.map(|(figure, _)| figure).join(", "), &why);
    }
}

/// Setups with several compute intervals; if there is none, those with one: points of another
/// sweep would each make a picture with a single group.
pub fn intervals<'a>(members: impl IntoIterator<Item = &'a Measurement> + Clone) -> Vec<Group<'a>> {
    let several = along(members.clone(), OVER_INTERVALS, interval);
    if !several.is_empty() {
        return several;
    }
    let mut found = groups(members, OVER_INTERVALS);
    found.retain(|group| group.worked().next().is_some());
    found
}

fn draw(pool: &Pool, album: &mut Album, found: &[Group], x: &Along, figures: &[(&str, Blocked)]) {
    for (figure, what) in figures {
        for group in found {
            let series = group.approaches();
            let keyed = series.iter().map(|one| (key_of(one), one)).collect();
            let mut facts = group.facts();
            facts.extend(settings_of(&series));
            let title = format!("{figure}: {}", what.title());
            let picture = compare(pool, title, facts, x, *what, keyed);
            let name = format!("{figure}-{}{}", what.name(), group.slug(found));
            album.push(name, picture);
        }
    }
}

/// Grouped bars: how long each series was blocked at each place of an axis.
pub fn compare(
    pool: &Pool,
    title: String,
    facts: Vec<String>,
    x: &Along,
    what: Blocked,
    series: Vec<(Key, &Series)>,
) -> Sheet {
    let members = || series.iter().flat_map(|(_, series)| series.members.iter().copied());
    let mut places: Vec<f64> = members().map(|member| (x.value)(&member.plan)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let floor = |place: f64| {
        let there = members().find(|member| (x.value)(&member.plan) == place);
        pool.floor(&there?.plan).map(|floor| what.floor(floor))
    };
    let floors: Vec<Option<f64>> = places.iter().map(|place| floor(*place)).collect();
    let spreads = members().filter_map(|member| member.spread(|f| what.of(f)));
    let times: Vec<f64> = spreads
        .flat_map(|spread| [spread.least, spread.median, spread.greatest])
        .chain(floors.iter().flatten().copied())
        .collect();
    let unit = unit(&times);
    let scaled: Vec<f64> = times.iter().map(|time| time * unit.per_second).collect();
    let y = Axis::values(format!("blocked per process ({})", unit.name), &scaled, Scale::Fitting);
    let baseline = series.iter().find(|(_, one)| one.approach == ApproachName::DirectPin);
    let bar = |one: &Series, place: f64| {
        let Some(member) = one.at(x.value, place) else {
            return Bar::default();
        };
        let spread = member.spread(|f| what.of(f));
        let other = baseline.and_then(|(_, baseline)| baseline.at(x.value, place));
        let other = other.and_then(|member| median(member, |f| what.of(f)));
        let note = match (one.approach, &spread, other) {
            (ApproachName::Ours, Some(own), Some(other)) if own.median > 0.0 => {
                format!("{} x", digits(other / own.median))
            }
            _ => String::new(),
        };
        let spread = spread.map(|spread| scale(spread, unit.per_second));
        Bar { spread, note, absent: Absent::of(member) }
    };
    let bars: Vec<(Key, Vec<Bar>)> = series
        .iter()
        .map(|(key, one)| (key.clone(), places.iter().map(|place| bar(one, *place)).collect()))
        .collect();
    let mut sheet = sheet(pool, &title, facts);
    sheet.warnings.extend(wrong(members()));
    sheet.facts.extend(extent(members()));
    if bars.iter().flat_map(|(_, bars)| bars).any(|bar| !bar.note.is_empty()) {
        sheet.facts.push("n x = direct-pin / ours".to_owned());
    }
    if floors.iter().any(Option::is_some) {
        sheet.keys.push(Key::dashes(what.floor_title()));
    }
    sheet.facts.extend(bare_copies(pool, members().map(|member| &member.plan)));
    let name = |place: &f64| {
        let plan = members().map(|member| &member.plan).find(|plan| (x.value)(plan) == *place);
        plan.map(x.text).unwrap_or_default()
    };
    let names: Vec<String> = places.iter().map(name).collect();
    sheet.panels.push(Panel::Bars(Bars {
        title: String::new(),
        x: Axis::names(x.title.to_owned(), &names),
        y,
        series: bars,
        floors: floors.iter().map(|floor| floor.map(|time| time * unit.per_second)).collect(),
        level: None,
    }));
    sheet
}

/// How long bare copies took, where all of a picture has the same; nothing of several floors.
fn bare_copies<'a>(pool: &Pool, plans: impl Iterator<Item = &'a Plan>) -> Option<String> {
    let mut floors: Vec<&Floor> = plans.filter_map(|plan| pool.floor(plan)).collect();
    floors.dedup_by(|one, other| std::ptr::eq(*one, *other));
    let [floor] = floors[..] else { return None };
    let ms = |seconds: f64| digits(1e3 * seconds);
    Some(format!(
        "bare copies: {} ms ({} to {}, {} passes)",
        ms(floor.median),
        ms(floor.least),
        ms(floor.greatest),
        floor.passes.len()
    ))
}

/// The same in another unit.
pub fn scale(spread: Spread, factor: f64) -> Spread {
    Spread {
        median: spread.median * factor,
        least: spread.least * factor,
        greatest: spread.greatest * factor,
    }
}
