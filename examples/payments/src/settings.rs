//! What the function is told by its environment.

use std::fmt;

use lambda_idempotency::Retention;

/// The function's tables, and how long it remembers a payment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The table of idempotency records: `IDEMPOTENCY_TABLE`.
    pub idempotency_table: String,
    /// The table of payments: `PAYMENTS_TABLE`.
    pub payments_table: String,
    /// The table of balances: `ACCOUNTS_TABLE`.
    pub accounts_table: String,
    /// How long records are kept: `RETENTION_DAYS`, or the library's default if it is not set.
    pub retention: Retention,
}

impl Settings {
    /// Reads the environment variables of this process.
    ///
    /// # Errors
    ///
    /// Names the first variable that is missing or that can't be used.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let variable = |name| variable(name).filter(|value| !value.trim().is_empty());
        let table = |name, what| {
            variable(name).ok_or_else(|| {
                SettingsError(format!(
                    "the environment variable {name} is not set: it names the table {what}"
                ))
            })
        };
        let retention = match variable("RETENTION_DAYS") {
            None => Retention::default(),
            Some(days) => days.trim().parse().map(Retention::days).map_err(|_| {
                SettingsError(format!(
                    "the environment variable RETENTION_DAYS is {days:?}: it has to be a whole \
                     number of days"
                ))
            })?,
        };
        Ok(Self {
            idempotency_table: table("IDEMPOTENCY_TABLE", "of idempotency records")?,
            payments_table: table("PAYMENTS_TABLE", "of payments")?,
            accounts_table: table("ACCOUNTS_TABLE", "of balances")?,
            retention,
        })
    }
}

/// An environment variable that is missing or that can't be used.
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SettingsError {
    /// The sentence alone: this is how `main` prints the error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(|name| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    const TABLES: [(&str, &str); 3] = [
        ("IDEMPOTENCY_TABLE", "records"),
        ("PAYMENTS_TABLE", "payments"),
        ("ACCOUNTS_TABLE", "accounts"),
    ];

    #[test]
    fn the_error_names_the_variable_that_is_missing_or_empty() {
        for (left_out, _) in TABLES {
            let others =
                TABLES.map(|(name, value)| (name, if name == left_out { "" } else { value }));
            for variables in [&others[..], &[]] {
                let error = read(variables)
                    .expect_err("a table has no name")
                    .to_string();
                assert!(variables.is_empty() || error.contains(left_out), "{error}");
                assert!(error.contains("_TABLE") && !error.contains('\n'), "{error}");
            }
        }
    }

    #[test]
    fn the_retention_is_in_days_and_optional() -> Result<(), SettingsError> {
        assert_eq!(read(&TABLES)?.retention, Retention::default());
        let with = |days| read(&[&TABLES[..], &[("RETENTION_DAYS", days)]].concat());
        assert_eq!(with("42")?.retention, Retention::days(42));
        for days in ["soon", "-1", "1.5"] {
            let error = with(days).expect_err("not a number of days").to_string();
            assert!(error.contains("RETENTION_DAYS"), "{error}");
        }
        Ok(())
    }
}
