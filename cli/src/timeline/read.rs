//! Files in the Chrome trace-event format: an array of events, which a killed job leaves without
//! its end, or an object that has the array as `traceEvents`.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// One event, as it stands in the file. Times are in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// What.
    #[serde(default)]
    pub name: String,
    /// Of which sort.
    #[serde(default)]
    pub cat: String,
    /// The phase: `X` is a span, `i` a mark, `C` a counter, `M` tells about the file.
    pub ph: String,
    /// When.
    #[serde(default)]
    pub ts: f64,
    /// How long.
    #[serde(default)]
    pub dur: f64,
    /// The process.
    #[serde(default)]
    pub pid: u64,
    /// The thread.
    #[serde(default)]
    pub tid: u64,
    /// The rest.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// The events of a file, and whether its end is missing.
pub fn events(path: &Path) -> Result<(Vec<Event>, bool)> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    // A letter of several bytes may be cut; what is before it is whole.
    let text = String::from_utf8_lossy(&text);
    parse(&text).with_context(|| format!("{} is no trace", path.display()))
}

fn parse(text: &str) -> Result<(Vec<Event>, bool)> {
    let text = text.trim_start();
    if text.is_empty() {
        // Of a process that was killed before the first line was written.
        return Ok((Vec::new(), true));
    }
    if let Some(array) = text.strip_prefix('[') {
        return elements(array);
    }
    #[derive(Deserialize)]
    struct Object {
        #[serde(rename = "traceEvents")]
        events: Vec<Event>,
    }
    let object: Value = serde_json::from_str(text)?;
    ensure!(
        object.get("measurements").is_none(),
        "it holds results of the bench, which `veloc bench plot` draws"
    );
    let object: Object = serde_json::from_value(object)?;
    Ok((object.events, false))
}

/// The elements of an array, one by one, up to where it is cut.
fn elements(array: &str) -> Result<(Vec<Event>, bool)> {
    let mut events = Vec::new();
    let mut rest = array.trim_start();
    while !rest.is_empty() && !rest.starts_with(']') {
        let mut elements = serde_json::Deserializer::from_str(rest).into_iter::<Event>();
        match elements.next() {
            Some(Ok(event)) => events.push(event),
            Some(Err(error)) if error.is_eof() => return Ok((events, true)),
            Some(Err(error)) => {
                return Err(error).with_context(|| format!("event {}", events.len() + 1));
            }
            None => break,
        }
        rest = rest[elements.byte_offset()..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok((events, rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"[
{"name":"flush","ph":"X","ts":1.5,"dur":2,"pid":1,"tid":2,"args":{"version":3}},
{"name":"touch","ph":"X","ts":2,"dur":2,"pid":1,"tid":3,"args":{}}
]
"#;

    #[test]
    fn whole_and_cut_anywhere() {
        let (events, cut) = parse(WHOLE).unwrap();
        assert_eq!((events.len(), cut), (2, false));
        assert_eq!((events[0].ts, events[0].args["version"].as_u64()), (1.5, Some(3)));
        let end = WHOLE.rfind(']').unwrap();
        for at in 1..end {
            let (some, cut) = parse(&WHOLE[..at]).unwrap_or_else(|e| panic!("{at}: {e:#}"));
            assert!(cut && some.len() <= 2);
            assert!(some.len() == 2 || at < end - 1, "the first {at} letters");
        }
    }

    #[test]
    fn as_an_object() {
        let (events, cut) = parse(r#"{"traceEvents":[{"ph":"X","name":"map"}]}"#).unwrap();
        assert_eq!((events[0].name.as_str(), cut), ("map", false));
    }

    #[test]
    fn what_is_no_trace_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thing");
        for text in ["hello", "{}", "[1, 2]", r#"{"a":[]}"#, "\u{1}"] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", events(&path).unwrap_err());
            assert!(error.contains("thing"), "{text:?}: {error}");
        }
        std::fs::write(&path, r#"{"schema": 2, "measurements": []}"#).unwrap();
        let error = format!("{:#}", events(&path).unwrap_err());
        assert!(error.contains("thing") && error.contains("`veloc bench plot`"), "{error}");
        assert!(format!("{:#}", events(&folder.path().join("none")).unwrap_err()).contains("none"));
    }
}
