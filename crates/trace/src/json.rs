//! Writes records in the Chrome trace-event format: an array of objects, one per line. Times are in
//! microseconds with three decimals, so no nanosecond is lost.

use std::fmt::Write as _;

use super::activity::{ACTIVITIES, COUNTERS, LEVELS};
use super::cause::CAUSES;
use super::ring::{RecordKind, RingEntry};
use policy::capture::Capture;

/// The touch modes, by number.
const MODES: [&str; 2] = ["sequential", "concurrent"];

/// Writes one record. One of two counters gives two lines.
pub(crate) fn line(text: &mut String, process: u32, entry: &mut RingEntry) {
    if entry.record.kind == RecordKind::Counters {
        entry.record.kind = RecordKind::Counter;
        line(text, process, entry);
        text.push_str(",\n");
        entry.record.detail += 1;
        entry.record.bytes = entry.record.extra;
    }
    let RingEntry { thread, checkpoint, record } = entry;
    let detail = usize::from(record.detail);
    let cause = CAUSES.get(detail).map_or("", |(_, name)| name);
    let level = LEVELS.get(detail).copied().unwrap_or_default();
    let mode = MODES.get(detail).copied().unwrap_or_default();
    let (title, category, phase) = match record.kind {
        RecordKind::Span => {
            let activity = ACTIVITIES.get(detail).and_then(|(_, name)| name.to_str().ok());
            (activity.unwrap_or_default(), "veloc", "X")
        }
        RecordKind::Blocked => (cause, "blocked", "X"),
        RecordKind::Evict => ("evict", "veloc", "i"),
        RecordKind::Decide => ("touch mode", "veloc", "i"),
        RecordKind::HostCapture => ("host capture", "veloc", "i"),
        RecordKind::Compressed => ("compressed region", "veloc", "i"),
        RecordKind::Counter => (COUNTERS.get(detail).map_or("", |(_, name)| name), "room", "C"),
        RecordKind::Counters => return,
    };
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        text,
        "{{\"name\":\"{title}\",\"cat\":\"{category}\",\"ph\":\"{phase}\",\"ts\":{}",
        Microseconds(record.start)
    );
    match phase {
        "X" => {
            let _ = write!(text, ",\"dur\":{}", Microseconds(record.time));
        }
        "i" => text.push_str(",\"s\":\"t\""),
        _ => {}
    }
    let _ = write!(text, ",\"pid\":{process},\"tid\":{thread},\"args\":{{");
    let mut arguments = EventArguments { text, first: true };
    if let Some((name, version)) = checkpoint {
        arguments.key("checkpoint");
        string(arguments.text, name);
        arguments.number("version", version);
    }
    match record.kind {
        RecordKind::Blocked => arguments.word("cause", cause),
        RecordKind::Evict => {
            arguments.word("tier", level);
            arguments.number("bytes", record.bytes);
        }
        RecordKind::Decide => {
            arguments.word("mode", mode);
            arguments.number("sequential_ns", record.bytes);
            arguments.number("concurrent_ns", record.extra);
        }
        RecordKind::HostCapture => {
            arguments.word(
                "way",
                u8::try_from(detail)
                    .ok()
                    .and_then(Capture::of_number)
                    .map_or("", |way| way.row().word),
            );
            arguments.number("bytes", record.bytes);
            arguments.number("blocked_ns", record.extra);
        }
        RecordKind::Compressed => {
            arguments.number("bits", detail);
            arguments.number("bytes", record.bytes);
            arguments.number("error", f64::from_bits(record.extra));
            arguments.number("whole_blocks", record.time);
        }
        RecordKind::Counter => arguments.number("bytes", record.bytes),
        RecordKind::Span if record.bytes > 0 => {
            arguments.number("bytes", record.bytes);
            if record.time > 0 {
                let rate = record.bytes as f64 / record.time as f64;
                arguments.number("gb_per_s", format_args!("{rate:.3}"));
            }
            if record.extra > 0 {
                arguments.number("untouched_bytes", record.extra);
            }
        }
        RecordKind::Span | RecordKind::Counters => {}
    }
    text.push_str("}}");
}

/// Writes a metadata line about the file, its process or a thread, with string arguments.
pub(crate) fn metadata(
    text: &mut String,
    process: u32,
    thread: u32,
    name: &str,
    arguments: &[(&str, &str)],
) {
    let _ = write!(
        text,
        "{{\"name\":\"{name}\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":{{"
    );
    for (i, (key, value)) in arguments.iter().enumerate() {
        text.push_str(if i > 0 { "," } else { "" });
        string(text, key);
        text.push(':');
        string(text, value);
    }
    text.push_str("}}");
}

/// Nanoseconds, formatted as microseconds.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

struct EventArguments<'a> {
    text: &'a mut String,
    first: bool,
}

impl EventArguments<'_> {
    fn key(&mut self, key: &str) {
        let _ = write!(self.text, "{}\"{key}\":", if self.first { "" } else { "," });
        self.first = false;
    }

    fn number(&mut self, key: &str, number: impl std::fmt::Display) {
        self.key(key);
        let _ = write!(self.text, "{number}");
    }

    fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        string(self.text, word);
    }
}

/// A quoted string.
fn string(text: &mut String, value: &str) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' | '\\' => {
                text.push('\\');
                text.push(letter);
            }
            control if control.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}
