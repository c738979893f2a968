//! Which measurements belong in one picture, and which of them make one series.

use veloc_client::config::{Role, KEYS};

use crate::bench::plan::{ApproachName, Plan};
use crate::bench::results::Measurement;

use super::field::cut;
pub use super::field::{uniform, Field};

use Field as F;

/// Fixed in a picture over compute intervals.
pub const OVER_INTERVALS: &[Field] = &[
    F::Configuration,
    F::Processes,
    F::Sizes,
    F::Compute,
    F::DeviceCache,
    F::HostCache,
    F::Order,
    F::Verify,
];

/// Fixed in a picture over numbers of processes.
pub const OVER_PROCESSES: &[Field] = &[
    F::Configuration,
    F::FirstSizes,
    F::Interval,
    F::Compute,
    F::DeviceCache,
    F::HostCache,
    F::Order,
    F::Verify,
];

/// Fixed in a picture over host buffer sizes.
pub const OVER_HOST_CACHES: &[Field] = &[
    F::Configuration,
    F::Processes,
    F::Sizes,
    F::Interval,
    F::Compute,
    F::DeviceCache,
    F::Order,
    F::Verify,
];

/// The same where the number of checkpoints may follow the host buffer.
pub const OVER_HOST_CACHES_AND_COUNTS: &[Field] = &[
    F::Configuration,
    F::Processes,
    F::CheckpointSize,
    F::Interval,
    F::Compute,
    F::DeviceCache,
    F::Order,
    F::Verify,
];

/// The most letters of what tells pictures apart: a file name has room for 255 bytes.
const LONGEST: usize = 80;

/// Measurements that agree in some fields.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The fields.
    pub fixed: &'static [Field],
    /// In the order in which they were measured; never empty.
    pub members: Vec<&'a Measurement>,
}

/// Sorts measurements into groups that agree in `fixed`, in the order of their first members.
pub fn groups<'a>(
    measurements: impl IntoIterator<Item = &'a Measurement>,
    fixed: &'static [Field],
) -> Vec<Group<'a>> {
    let mut groups: Vec<(Vec<String>, Group)> = Vec::new();
    for measurement in measurements {
        let key: Vec<String> = fixed.iter().map(|field| field.key(&measurement.plan)).collect();
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.members.push(measurement),
            None => groups.push((key, Group { fixed, members: vec![measurement] })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

impl<'a> Group<'a> {
    /// A plan of the group.
    pub fn plan(&self) -> &'a Plan {
        &self.members[0].plan
    }

    /// The members of which at least one repeat worked.
    pub fn worked(&self) -> impl Iterator<Item = &'a Measurement> + '_ {
        self.members.iter().copied().filter(|member| !member.runs.is_empty())
    }

    /// What is fixed, in words.
    pub fn facts(&self) -> Vec<String> {
        let all = self.fixed.iter().map(|field| field.text(self.plan()));
        all.filter(|text| !text.is_empty()).collect()
    }

    /// The end of a file name: facts, as many as it takes to tell this group from the others.
    pub fn slug(&self, among: &[Group]) -> String {
        let mut slug = String::new();
        let mut same: Vec<&Group> = among.iter().collect();
        for field in self.fixed {
            let own = field.key(self.plan());
            let before = same.len();
            same.retain(|other| field.key(other.plan()) == own);
            if same.len() < before {
                slug.push('-');
                slug.push_str(&simple(&field.short(self.plan())));
            }
        }
        cut(&slug, LONGEST)
    }

    /// The different values along an axis, in rising order.
    pub fn values(&self, along: impl Fn(&Plan) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.members.iter().map(|m| along(&m.plan)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// One series for each approach, `ours` first. Where `ours` was measured with several settings,
    /// the defaults speak for it, or else those that were measured at most points.
    pub fn approaches(&self) -> Vec<Series<'a>> {
        use ApproachName::{DirectPin, IncrementalMemset, Ours, Ring, Uvm, UvmBudget};
        let mut all = Vec::new();
        for approach in [Ours, DirectPin, IncrementalMemset, Uvm, UvmBudget, Ring] {
            let members = self.members.iter().copied().filter(|m| m.plan.approach == approach);
            let mut variants = groups(members, &[F::Variant, F::Settings]);
            let at = variants.iter().position(|variant| defaults(variant.plan())).or_else(|| {
                let points = variants.iter().map(|variant| variant.members.len());
                // The first of the longest: `max_by_key` would take the last.
                points.enumerate().rev().max_by_key(|(_, points)| *points).map(|(at, _)| at)
            });
            if let Some(at) = at {
                let members = variants.swap_remove(at).members;
                all.push(Series { approach, members });
            }
        }
        all
    }

    /// One series for each setting of `ours` that these fields tell apart.
    pub fn variants(&self, fields: &'static [Field]) -> Vec<Series<'a>> {
        let ours = self.members.iter().copied();
        let ours = ours.filter(|member| member.plan.approach == ApproachName::Ours);
        groups(ours, fields)
            .into_iter()
            .map(|group| Series { approach: ApproachName::Ours, members: group.members })
            .collect()
    }
}

/// Measurements that share a colour.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Of which approach.
    pub approach: ApproachName,
    /// The points.
    pub members: Vec<&'a Measurement>,
}

impl<'a> Series<'a> {
    /// The point at a value of the axis.
    pub fn at(&self, along: impl Fn(&Plan) -> f64, value: f64) -> Option<&'a Measurement> {
        self.members.iter().copied().find(|member| along(&member.plan) == value)
    }
}

/// Whether a plan leaves everything at the library's defaults.
fn defaults(plan: &Plan) -> bool {
    let default = |name: &str, value: &str| {
        let key = KEYS.iter().find(|key| key.name == name);
        key.is_some_and(|key| matches!(key.role, Role::Default(text) if text == value))
    };
    plan.settings.is_empty() && default("touch", &plan.touch) && default("pin", &plan.pin)
}

/// Text as part of a file name.
pub fn simple(text: &str) -> String {
    let mut simple = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '.' {
            simple.push(c.to_ascii_lowercase());
        } else if !simple.ends_with('-') && !simple.is_empty() {
            simple.push('-');
        }
    }
    simple.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{Compute, Hints};
    use crate::bench::plot::synthetic::point;
    use ApproachName::{DirectPin, Ours, Uvm};

    fn interval(plan: &Plan) -> f64 {
        plan.interval_ms
    }

    #[test]
    fn points_that_differ_in_a_fixed_field_are_in_different_pictures() {
        let mut more = point(Ours, 20.0, 1.0);
        more.plan.processes = 4;
        let all = [point(Uvm, 20.0, 1.0), more, point(Ours, 5.0, 1.0)];
        let found = groups(&all, OVER_INTERVALS);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].members.len(), 2);
        assert_eq!(found[0].values(interval), [5.0, 20.0]);
        assert_eq!(found[1].slug(&found), "-4-processes");
        assert_eq!(found[0].slug(&found[..1]), "");
        let found = groups(&all, OVER_PROCESSES);
        assert_eq!(found.len(), 2, "one for each interval");
        assert_eq!(found[0].values(|plan| f64::from(plan.processes)), [1.0, 4.0]);
    }

    #[test]
    fn ours_comes_first_and_with_its_defaults() {
        let mut other = point(Ours, 5.0, 1.0);
        other.plan.pin = "parallel".to_owned();
        let mut set = point(Ours, 5.0, 1.0);
        set.plan.settings.push("touch_threads = 1".to_owned());
        let mut free = point(DirectPin, 5.0, 1.0);
        free.plan.pin = "whatever".to_owned();
        let all = [free, point(DirectPin, 20.0, 1.0), other, set, point(Ours, 5.0, 2.0)];
        let found = groups(&all, OVER_INTERVALS);
        let series = found[0].approaches();
        let names: Vec<_> = series.iter().map(|s| (s.approach, s.members.len())).collect();
        assert_eq!(names, [(Ours, 1), (DirectPin, 2)]);
        assert!(std::ptr::eq(series[0].at(interval, 5.0).unwrap(), &all[4]));
        assert!(series[0].at(interval, 20.0).is_none());
        assert_eq!(found[0].variants(&[F::Variant, F::Settings]).len(), 3);
    }

    #[test]
    fn the_number_of_checkpoints_may_follow_the_host_buffer() {
        let mut large = point(Ours, 20.0, 1.0);
        large.plan.host_cache *= 2;
        large.plan.sizes[0].extend_from_within(..);
        let all = [point(Ours, 20.0, 1.0), large];
        assert_eq!(groups(&all, OVER_HOST_CACHES_AND_COUNTS).len(), 1);
        assert_eq!(groups(&all, OVER_HOST_CACHES).len(), 2);
        assert_eq!(groups(&all, OVER_PROCESSES).len(), 2);
    }

    #[test]
    fn names_of_files_are_plain_and_short() {
        assert_eq!(simple("NVIDIA H200 (software)"), "nvidia-h200-software");
        assert_eq!(simple("2.5 ms / x"), "2.5-ms-x");
        let mut one = point(Ours, 20.0, 1.0);
        one.plan.workload = "t\u{e4}".repeat(100);
        one.plan.sizes[0][0] += 4;
        let mut other = one.clone();
        other.plan.sizes[0][0] += 4;
        other.plan.workload += ".csv";
        (other.plan.compute, other.plan.hints) = (Compute::Sleep, Hints::One);
        let all = [one, other];
        let found = groups(&all, OVER_INTERVALS);
        let slug = found[1].slug(&found);
        assert!(slug.starts_with("-4xt-t-t-t-t") && slug.len() <= 40, "{slug}");
        assert_eq!(cut("a-b-c", 4), "a-b");
        assert_eq!(cut("a\u{e4}", 2), "a");
    }
}
