//! Points that were planned and have no figures: how many there are, and why.

use crate::campaign::describe;
use crate::results::Measurement;

/// Why a planned point has no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The point was tried, and no repeat worked.
    Failed,
    /// The point was not tried: the time was up, or the run ended before.
    NotMeasured,
}

impl Absent {
    /// Why a point has no figures; `None` if it has.
    pub(crate) fn of(point: &Measurement) -> Option<Absent> {
        match (point.runs.is_empty(), point.failures.is_empty()) {
            (false, _) => None,
            (true, false) => Some(Absent::Failed),
            (true, true) => Some(Absent::NotMeasured),
        }
    }

    /// The text in the place of figures.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Absent::Failed => "failed",
            Absent::NotMeasured => "not measured",
        }
    }
}

/// How many points were measured, of how many, and how often: `5 of 6 points measured, 1 failed;
/// 2 to 3 repeats`.
pub(crate) fn count<'a>(points: impl IntoIterator<Item = &'a Measurement>) -> String {
    let points: Vec<&Measurement> = points.into_iter().collect();
    let absent = |why| points.iter().filter(|point| Absent::of(point) == Some(why)).count();
    let (failed, missing) = (absent(Absent::Failed), absent(Absent::NotMeasured));
    let measured = points.len() - failed - missing;
    let mut text = match (measured == points.len(), points.len()) {
        (true, 1) => "1 point measured".to_owned(),
        (true, all) => format!("{all} points measured"),
        (false, all) => format!("{measured} of {all} points measured"),
    };
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    if missing > 0 {
        text += &format!(", {missing} not begun");
    }
    let repeats = || points.iter().map(|point| point.runs.len()).filter(|runs| *runs > 0);
    match (repeats().min(), repeats().max()) {
        (Some(1), Some(1)) => text += "; 1 repeat",
        (Some(least), Some(most)) if least == most => text += &format!("; {most} repeats"),
        (Some(least), Some(most)) => text += &format!("; {least} to {most} repeats"),
        _ => {}
    }
    text
}

/// A line for each reason why points were not begun. Files of an older version have none.
pub(crate) fn reasons<'a>(points: impl IntoIterator<Item = &'a Measurement>) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Measurement>)> = Vec::new();
    for point in points.into_iter().filter(|m| Absent::of(m) == Some(Absent::NotMeasured)) {
        let Some(reason) = &point.not_begun else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason.text) {
            Some((_, of)) => of.push(point),
            None => reasons.push((&reason.text, vec![point])),
        }
    }
    let line = |(reason, of): (&str, Vec<&Measurement>)| match of[..] {
        [one] => format!("NOT BEGUN: {}: {reason}", describe(&one.plan)),
        _ => format!("NOT BEGUN: {} points: {reason}", of.len()),
    };
    reasons.into_iter().map(line).collect()
}

/// A line for each failure.
pub(crate) fn failures<'a>(points: impl IntoIterator<Item = &'a Measurement>) -> Vec<String> {
    let of = |point: &'a Measurement| {
        let plan = describe(&point.plan);
        point.failures.iter().map(move |failure| format!("FAILED: {plan}: {failure}"))
    };
    points.into_iter().flat_map(of).collect()
}
