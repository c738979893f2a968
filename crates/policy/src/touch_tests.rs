//! The choice of a touch mode, and its prediction.

use super::*;

const GB: f64 = 1e9;

fn rate(bytes_per_second: f64) -> Rate {
    Rate(Some(bytes_per_second))
}

/// The paper's A100 node: flush 3 and 6 GB/s, 128 MB checkpoints.
fn paper(interval: f64) -> Inputs {
    Inputs {
        touch_alone: rate(10.0 * GB),
        touch_beside_flush: rate(7.0 * GB),
        flush_touched: rate(6.0 * GB),
        flush_untouched: rate(3.0 * GB),
        flush_beside_touch: rate(4.2 * GB),
        checkpoint_bytes: 128e6,
        interval,
    }
}

#[test]
fn long_pauses_favour_sequential_touching_and_short_ones_concurrent() {
    let long = predict(&paper(0.1)).unwrap();
    assert!(long.sequential < long.concurrent, "{long:?}");
    let short = predict(&paper(0.005)).unwrap();
    assert!(short.concurrent < short.sequential, "{short:?}");
}

#[test]
fn auto_changes_its_mind_as_the_interval_does() {
    let mut model = TouchModel::new(Touch::Auto);
    let mut now = 0.0;
    let feed = |model: &mut TouchModel, interval: f64, now: &mut f64| {
        for _ in 0..40 {
            *now += interval;
            model.captured(128_000_000, *now);
            model.touched(64_000_000, 0.0064, false);
            model.touched(64_000_000, 0.0091, true);
            model.flushed(128_000_000, 0, 128e6 / (6.0 * GB), false);
            model.flushed(128_000_000, 128_000_000, 128e6 / (3.0 * GB), false);
        }
    };
    feed(&mut model, 0.1, &mut now);
    assert_eq!(model.mode(), TouchMode::Sequential);
    feed(&mut model, 0.002, &mut now);
    assert_eq!(model.mode(), TouchMode::Concurrent);
    assert!(model.changes() >= 2);
}

#[test]
fn a_fixed_setting_is_never_changed() {
    let mut model = TouchModel::new(Touch::Sequential);
    for step in 0..10 {
        model.captured(128_000_000, f64::from(step) * 0.001);
        model.touched(1 << 20, 0.001, false);
        model.flushed(128_000_000, 0, 0.02, true);
    }
    assert_eq!(model.mode(), TouchMode::Sequential);
    assert_eq!(model.changes(), 0);
    assert!(model.prediction().is_some(), "the prediction can be read all the same");
}

/// Catches a model that keeps deciding, at the cost of every checkpoint, after all is touched, and one
/// that stops measuring.
#[test]
fn the_mode_stays_when_all_is_touched() {
    let mut model = TouchModel::new(Touch::Auto);
    let mut now = 0.0;
    let mut take = |model: &mut TouchModel| {
        now += 0.1;
        model.captured(128_000_000, now);
        model.touched(64_000_000, 0.0064, false);
        model.flushed(128_000_000, 0, 128e6 / (6.0 * GB), false);
    };
    model.all_touched();
    (0..10).for_each(|_| take(&mut model));
    assert_eq!((model.mode(), model.changes()), (TouchMode::Concurrent, 0));
    let prediction = model.prediction().unwrap();
    assert!(prediction.sequential < prediction.concurrent, "{prediction:?}");

    let mut model = TouchModel::new(Touch::Auto);
    (0..10).for_each(|_| take(&mut model));
    assert_eq!(model.mode(), TouchMode::Sequential, "it would have changed");
}

/// Catches time waited within a checkpoint that counts as a pause: if flushes are late, sequential
/// touching would seem to have time.
#[test]
fn waiting_for_room_is_no_pause() {
    let mut model = TouchModel::new(Touch::Auto);
    for step in 0..20 {
        let start = f64::from(step) * 0.045;
        model.begun(start);
        model.captured(128_000_000, start + 0.04);
    }
    assert!((model.inputs().interval - 0.005).abs() < 1e-9, "{:?}", model.inputs());
}

/// Catches a flush onto mixed pages that counts as one onto either kind: the mode would be decided by
/// rates that no flush had.
#[test]
fn a_mixture_measures_the_rate_onto_touched_pages() {
    let (touched, untouched) = (6.0 * GB, 3.0 * GB);
    let mut model = TouchModel::new(Touch::Auto);
    model.flushed(100_000_000, 100_000_000, 100e6 / untouched, false);
    for _ in 0..40 {
        let seconds = 60e6 / touched + 40e6 / untouched;
        model.flushed(100_000_000, 40_000_000, seconds, false);
    }
    let inputs = model.inputs();
    let found = inputs.flush_touched.get().unwrap() / touched;
    assert!((found - 1.0).abs() < 0.01, "{inputs:?}");
    assert_eq!(inputs.flush_untouched.get(), Some(untouched));
    assert_eq!(inputs.flush_beside_touch.get(), None);
}

#[test]
fn touching_leaves_processors_to_the_application() {
    assert_eq!([1, 2, 3, 4, 7, 8, 64].map(|n| threads(0, n)), [1, 1, 1, 2, 3, 4, 4]);
    assert_eq!(threads(9, 2), 9);
}

#[test]
fn pages_are_populated_only_where_a_write_could_end_the_process() {
    assert_eq!(touch_method(true, false), FaultMethod::Write);
    assert_eq!(touch_method(true, true), FaultMethod::Populate);
    assert_eq!(touch_method(false, true), FaultMethod::Write);
}

#[test]
fn nothing_is_predicted_from_nothing() {
    assert_eq!(predict(&Inputs::default()), None);
}
