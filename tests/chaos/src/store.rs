//! The store: the embedded DynamoDB on a file, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use anyhow::{Context as _, anyhow};
use dynoxide::Database;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

pub(crate) const IDEMPOTENCY: &str = "idempotency";
pub(crate) const PAYMENTS: &str = "payments";
pub(crate) const ACCOUNTS: &str = "accounts";

pub(crate) fn open(file: &Path) -> anyhow::Result<Database> {
    let path = file.to_str().context("the name is not UTF-8")?;
    Database::new(path).map_err(|error| anyhow!("can't open {path}: {error}"))
}

/// What the process of the store does: says its port, and serves until its standard input ends, so
/// that it does not outlive the driver.
pub(crate) async fn serve(file: &Path) -> anyhow::Result<()> {
    let database = open(file)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let driver_is_gone = async {
        let _ = tokio::io::stdin().read(&mut [0]).await;
    };
    dynoxide::server::serve_with_shutdown(listener, database, driver_is_gone)
        .await
        .map_err(|error| anyhow!(error))
}

/// The process of the store, as the driver sees it.
pub(crate) struct Store {
    file: PathBuf,
    process: Mutex<Child>,
    port: AtomicU16,
    restarts: AtomicU64,
}

impl Store {
    /// Creates the tables in a new file, and serves it.
    pub(crate) async fn start(file: PathBuf) -> anyhow::Result<Self> {
        let database = open(&file)?;
        for table in [IDEMPOTENCY, PAYMENTS, ACCOUNTS] {
            let request = json!({
                "TableName": table,
                "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
                "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
                "BillingMode": "PAY_PER_REQUEST",
            });
            database
                .create_table(serde_json::from_value(request)?)
                .map_err(|error| anyhow!("can't create the table {table}: {error}"))?;
        }
        drop(database);
        let (process, port) = spawn(&file).await?;
        Ok(Self {
            file,
            process: Mutex::new(process),
            port: AtomicU16::new(port),
            restarts: AtomicU64::new(0),
        })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// SIGKILL in the middle of whatever it does, and a new process on the same file.
    pub(crate) async fn restart(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        process.kill().await?;
        let (started, port) = spawn(&self.file).await?;
        *process = started;
        self.port.store(port, Ordering::Relaxed);
        self.restarts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        Ok(self.process.lock().await.kill().await?)
    }
}

async fn spawn(file: &Path) -> anyhow::Result<(Child, u16)> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg("--serve")
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("can't start the store")?;
    let stdout = process.stdout.take().context("the store has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    let port = line
        .trim()
        .parse()
        .context("the store ended without saying its port")?;
    Ok((process, port))
}
