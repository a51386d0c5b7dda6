//! `--name value` pairs.

use std::collections::HashMap;
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};

/// The arguments of a program.
#[derive(Debug)]
pub struct Arguments(HashMap<String, String>);

impl Arguments {
    /// Those of this process.
    ///
    /// # Errors
    ///
    /// If one is not of the form `--name value`.
    pub fn read() -> anyhow::Result<Self> {
        let mut pairs = HashMap::new();
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let Some(name) = name.strip_prefix("--") else {
                bail!("{name:?} is not of the form --name value");
            };
            let value = given.next();
            let value = value.with_context(|| format!("--{name} has no value"))?;
            pairs.insert(name.to_owned(), value);
        }
        Ok(Self(pairs))
    }

    /// The text under this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn text(&self, name: &str) -> anyhow::Result<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.with_context(|| format!("--{name} is missing"))
    }

    /// The number under this name, or the default.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn number<N: FromStr>(&self, name: &str, default: N) -> anyhow::Result<N> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => value
                .parse()
                .map_err(|_| anyhow!("--{name} is {value:?}, which is no such number")),
        }
    }
}
