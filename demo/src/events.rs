//! The event files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// An event as it is in its file: JSON, whatever else it may be.
pub(crate) struct EventFile {
    /// The path as it was given.
    pub(crate) name: String,
    pub(crate) json: String,
}

/// Reads the files, and the `*.json` of the directories, in this order; without any, all of
/// `events/`. Everything is read before anything is run: a typo in the last name costs nothing.
pub(crate) fn load(given: &[PathBuf]) -> anyhow::Result<Vec<EventFile>> {
    if given.is_empty() {
        return directory(&default_directory()?, Path::new("events"));
    }
    let mut events = Vec::new();
    for path in given {
        if path.is_dir() {
            events.extend(directory(path, path)?);
        } else {
            events.push(file(path, path)?);
        }
    }
    Ok(events)
}

/// The sources' own directory, wherever the program is called; else the one right here.
fn default_directory() -> anyhow::Result<PathBuf> {
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../events"));
    [sources, Path::new("events")]
        .into_iter()
        .find(|path| path.is_dir())
        .map(Path::to_owned)
        .context("there is no directory events/ here: name the event files")
}

fn directory(path: &Path, shown: &Path) -> anyhow::Result<Vec<EventFile>> {
    let cannot_read = || format!("can't read the directory {}", shown.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(cannot_read)? {
        let path = entry.with_context(cannot_read)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("there are no event files (*.json) in {}", shown.display());
    }
    files.sort();
    let shown_file = |path: &Path| {
        path.file_name()
            .map_or_else(|| path.to_owned(), |name| shown.join(name))
    };
    files
        .iter()
        .map(|path| file(path, &shown_file(path)))
        .collect()
}

fn file(path: &Path, shown: &Path) -> anyhow::Result<EventFile> {
    let name = shown.display().to_string();
    let json = fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    serde_json::from_str::<IgnoredAny>(&json).with_context(|| format!("{name} is not JSON"))?;
    Ok(EventFile { name, json })
}

impl EventFile {
    /// The ids of the records in their order, as far as they have any: a report names its message
    /// by nothing else.
    pub(crate) fn message_ids(&self) -> Vec<Option<String>> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow, rename = "Records")]
            records: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Record {
            #[serde(rename = "messageId")]
            message_id: Option<String>,
        }
        let id = |record: &RawValue| {
            let record: Record = serde_json::from_str(record.get()).ok()?;
            record.message_id.filter(|id| !id.trim().is_empty())
        };
        match serde_json::from_str::<Event<'_>>(&self.json) {
            Ok(event) => event.records.into_iter().map(id).collect(),
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(json: &str) -> Vec<Option<String>> {
        let event = EventFile {
            name: "event.json".to_owned(),
            json: json.to_owned(),
        };
        event.message_ids()
    }

    #[test]
    fn a_record_that_cannot_be_read_has_no_id_and_keeps_its_place() {
        let json = r#"{"Records": [null, {"messageId": "m-1", "body": "\ud800"}, {"messageId": 7},
            {"messageId": " "}, "m-2", {"body": "x"}]}"#;
        let m1 = Some("m-1".to_owned());
        assert_eq!(ids(json), [None, m1, None, None, None, None]);
    }

    #[test]
    fn what_is_no_batch_has_no_ids() {
        for json in [
            "null",
            "[]",
            "{}",
            r#"{"Records": null}"#,
            r#"{"Records": {}}"#,
        ] {
            assert!(ids(json).is_empty(), "{json}");
        }
    }
}
