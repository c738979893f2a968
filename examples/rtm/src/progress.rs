//! The program's messages while it runs: a line for each phase, and on a terminal a moving bar.

use std::time::Duration;

use console::style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints messages, on a terminal with a moving bar.
pub(crate) struct Progress {
    /// Print nothing.
    pub quiet: bool,
}

impl Progress {
    /// Prints a line, with a name in front.
    pub(crate) fn say(&self, name: &str, text: &str) {
        if !self.quiet {
            println!("{:>10}  {text}", style(name).cyan().bold());
        }
    }

    /// Begins a phase of so many steps.
    pub(crate) fn phase(&self, name: &'static str, steps: usize) -> ProgressBar {
        let target =
            if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        let template = "{prefix:>10.cyan.bold}  {bar:36.cyan/dim} {percent:>3} %  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(name);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// Ends a phase with its result.
    pub(crate) fn done(&self, bar: &ProgressBar, text: &str) {
        let name = bar.prefix();
        bar.finish_and_clear();
        self.say(&name, text);
    }
}
