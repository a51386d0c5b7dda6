//! The event files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::de::IgnoredAny;

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
