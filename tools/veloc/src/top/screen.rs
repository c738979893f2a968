//! The picture on a terminal.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use os::size;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};

use super::job::{rate, ActivityShown, Job, JobNow, LevelShown, Watch};
use super::lines::checkpoints;
use crate::held;

/// What is on the screen.
#[derive(Default)]
pub(super) struct Picture {
    pub(super) jobs: Vec<Job>,
    /// What veloc-backend keeps for later jobs, as lines.
    pub(super) kept: String,
    pub(super) table: TableState,
    /// Why there is nothing newer.
    pub(super) error: Option<String>,
}

/// Shows the jobs until the user has seen enough.
pub(super) fn show(mut watch: Watch, every: Duration) -> Result<()> {
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let shown = run(&mut terminal, &mut watch, every);
    ratatui::restore();
    shown
}

fn run(terminal: &mut DefaultTerminal, watch: &mut Watch, every: Duration) -> Result<()> {
    let mut picture = Picture::default();
    // Rates need two looks.
    let mut due = Instant::now() + Duration::from_millis(100);
    picture.look(watch);
    loop {
        terminal.draw(|frame| picture.draw(frame)).context("the terminal")?;
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left).context("the terminal")? {
            match event::read().context("the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(())
                    }
                    KeyCode::Down | KeyCode::Char('j') => picture.table.select_next(),
                    KeyCode::Up | KeyCode::Char('k') => picture.table.select_previous(),
                    _ => {}
                },
                _ => {}
            }
        } else {
            picture.look(watch);
            due = Instant::now() + every;
        }
    }
}

impl Picture {
    fn look(&mut self, watch: &mut Watch) {
        match watch.look() {
            Ok(jobs) => (self.jobs, self.error) = (jobs, None),
            Err(error) => self.error = Some(format!("{error:#}")),
        }
        self.kept = match held::kept(None, None) {
            Ok(kept) if kept.is_empty() => String::new(),
            Ok(kept) => held::table(&kept),
            Err(error) => format!("{error:#}\n"),
        };
    }

    /// Draws all of it, as far as there is room.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        if self.table.selected().is_none() && !self.jobs.is_empty() {
            self.table.select_first();
        }
        let kept = self.kept.lines().count() as u16;
        let rows = (self.jobs.len() as u16).saturating_add(1).min(frame.area().height / 2);
        let [title, table, detail, held, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(rows),
            Constraint::Fill(1),
            Constraint::Length(kept),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.title(), title);
        self.processes(frame, table);
        let chosen = self.table.selected().and_then(|row| self.jobs.get(row));
        match chosen.map(|job| (job, &job.now)) {
            Some((job, Some(now))) => details(frame, detail, job, now),
            Some((_, None)) => frame.render_widget("it has another version of the library", detail),
            None => {}
        }
        frame.render_widget(Paragraph::new(self.kept.as_str()), held);
        let keys =
            Line::from("q ends   ↑ ↓ choose a process   █ used   ▒ ready   · to come").style(dim());
        frame.render_widget(keys, foot);
    }

    fn title(&self) -> Line<'_> {
        let jobs = match (&self.error, self.jobs.len()) {
            (Some(error), _) => error.clone(),
            (None, 0) => "no job of this user runs on this node".to_owned(),
            (None, 1) => "1 process".to_owned(),
            (None, number) => format!("{number} processes"),
        };
        Line::from(vec![Span::from("veloc top").style(bold()), Span::from(format!("  {jobs}"))])
    }

    fn processes(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.jobs.iter().map(|job| {
            let process = job.process.to_string();
            let Some(now) = &job.now else {
                return Row::new([process, String::new(), "another version".into(), String::new()]);
            };
            let rank = match now.ranks {
                0 => now.rank.to_string(),
                ranks => format!("{}/{ranks}", now.rank),
            };
            let waited = format!("{:.0} %", now.waited() * 100.0);
            // What the wait waits for in turn stands below.
            let state = now.state.split(',').next().unwrap_or_default().to_owned();
            Row::new([process, rank, waited, state, job.command.clone()])
        });
        let widths = [
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Fill(3),
            Constraint::Fill(1),
        ];
        let names = ["process", "rank", "waited", "the application", "command"].map(Cell::from);
        let table = Table::new(rows, widths)
            .header(Row::new(names).style(dim()))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// The levels, transfers and waits of a process.
fn details(frame: &mut Frame<'_>, area: Rect, job: &Job, now: &JobNow) {
    let frame_of = |title: String| Block::bordered().title(title);
    let of = format!(" process {}, {} for {} ", job.process, now.rank(), time(now.seconds));
    let block = frame_of(of);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut lines = vec![Line::from(now.state.clone()).style(bold()), Line::from(checkpoints(now))];
    lines.push(Line::default());
    let width = usize::from(inner.width).saturating_sub(60).clamp(10, 50);
    for level in &now.levels {
        lines.push(level_line(level, width));
    }
    lines.push(Line::default());
    let head = format!("{:<14}{:>12}{:>14}{:>12}", "waits", "now", "in all", "how often");
    lines.push(Line::from(head).style(dim()));
    for wait in now.waits.iter().filter(|wait| wait.count > 0 || wait.waiting > 0) {
        let share = match wait.waiting {
            0 => format!("{:.0} %", wait.share * 100.0),
            _ => "waiting".to_owned(),
        };
        let line = Line::from(format!(
            "{:<14}{share:>12}{:>14}{:>12}",
            wait.cause,
            time(wait.seconds),
            wait.count
        ));
        lines.push(if wait.waiting > 0 { line.style(bold()) } else { line });
    }
    lines.push(Line::default());
    lines.push(
        Line::from(format!("{:<14}{:>12}{:>14}{:>12}", "transfers", "now", "in all", "under way"))
            .style(dim()),
    );
    let is_shown = |one: &&ActivityShown| !one.is_call && (one.bytes > 0 || one.under_way > 0);
    for one in now.activities.iter().filter(is_shown) {
        let under_way = if one.under_way > 0 { one.under_way.to_string() } else { String::new() };
        lines.push(Line::from(format!(
            "{:<14}{:>12}{:>14}{under_way:>12}",
            one.name,
            rate(one.bytes_per_second),
            size::show(one.bytes),
        )));
    }
    if let Some(file) = &now.timeline {
        lines.push(Line::default());
        lines.push(Line::from(format!("timeline, for ui.perfetto.dev: {}", file.display())));
    }
    // On a low screen the waits matter more than lines between the parts.
    if lines.len() > usize::from(inner.height) {
        lines.retain(|line| line.width() > 0);
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// A level as a bar: what checkpoints use, what is there beside, and what is still to come.
fn level_line(level: &LevelShown, width: usize) -> Line<'static> {
    let cells = |bytes: u64| match level.bytes {
        0 => 0,
        all => (u128::from(bytes.min(all)) * width as u128).div_ceil(u128::from(all)) as usize,
    };
    let used = cells(level.used_bytes);
    let ready = cells(level.ready_bytes).max(used);
    let bar = ["█".repeat(used), "▒".repeat(ready - used), "·".repeat(width - ready)].concat();
    let ready = match level.ready_bytes < level.bytes {
        true => format!(", {} ready", size::show(level.ready_bytes)),
        false => String::new(),
    };
    let (used, all) = (size::show(level.used_bytes), size::show(level.bytes));
    Line::from(format!("{:<17}{bar} {used} of {all}{ready}", level.name))
}

/// A time for people.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}
