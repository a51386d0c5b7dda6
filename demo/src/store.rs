//! The DynamoDB that the demo runs on: one within this process, or the one at an endpoint.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, absolute};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Config, Credentials, Region};
use aws_smithy_http_client::tls;
use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::count::Requests;

const ENDPOINT: &str = "AWS_ENDPOINT_URL_DYNAMODB";

/// A request that is not answered by then is not worth holding the demo up for.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

pub(crate) struct Store {
    client: Client,
    place: String,
    server: Option<Server>,
}

/// DynamoDB within this process, on a port of the loopback interface.
struct Server {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), String>>,
}

impl Store {
    /// Opens the store; `requests` counts what is sent to it.
    pub(crate) async fn open(keep: Option<&Path>, requests: Requests) -> anyhow::Result<Self> {
        let configuration = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .interceptor(requests);
        match (endpoint()?, keep) {
            (Some(_), Some(_)) => bail!(
                "--keep is for the database within this process, but {ENDPOINT} names another: \
                 leave one of them out"
            ),
            (Some(endpoint), None) => Ok(Self {
                client: client_of(configuration, &endpoint),
                place: format!("the DynamoDB at {endpoint}"),
                server: None,
            }),
            (None, keep) => Self::embedded(configuration, keep).await,
        }
    }

    async fn embedded(configuration: Builder, keep: Option<&Path>) -> anyhow::Result<Self> {
        let (database, place) = match keep {
            None => (Database::memory()?, "in memory".to_owned()),
            Some(file) => (kept(file)?, format!("kept in {}", file.display())),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(dynoxide::server::serve_with_shutdown(
            listener, database, shutdown,
        ));
        // Unlike the default one, this HTTP client goes past any proxy of the environment, which
        // would look for the loopback address on another machine.
        let direct = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(
                tls::rustls_provider::CryptoMode::AwsLc,
            ))
            .build_https();
        let configuration = configuration
            .http_client(direct)
            .endpoint_url(endpoint)
            .region(Region::from_static("us-east-1"))
            .credentials_provider(dummy_credentials())
            .build();
        Ok(Self {
            client: Client::from_conf(configuration),
            place: format!("an embedded DynamoDB ({place})"),
            server: Some(Server { stop, task }),
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Where the data is, for a person.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Lets the server end what it is doing, so that a kept file is complete.
    pub(crate) async fn close(self) {
        drop(self.client);
        if let Some(server) = self.server {
            let _ = server.stop.send(());
            let _ = tokio::time::timeout(LONGEST_CLOSING, server.task).await;
        }
    }
}

fn endpoint() -> anyhow::Result<Option<String>> {
    let Some(endpoint) = std::env::var(ENDPOINT)
        .ok()
        .filter(|url| !url.trim().is_empty())
    else {
        return Ok(None);
    };
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        bail!("{ENDPOINT} is {endpoint:?}: it has to be a URL such as http://127.0.0.1:8000");
    }
    Ok(Some(endpoint))
}

fn client_of(configuration: Builder, endpoint: &str) -> Client {
    let region = ["AWS_REGION", "AWS_DEFAULT_REGION"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|region| !region.is_empty()))
        .unwrap_or_else(|| "us-east-1".to_owned());
    let credentials = CredentialsProviderChain::first_try(
        "environment",
        EnvironmentVariableCredentialsProvider::new(),
    )
    .or_else("profile", ProfileFileCredentialsProvider::builder().build())
    .or_else("dummy", dummy_credentials());
    let configuration = configuration
        .endpoint_url(endpoint)
        .region(Region::new(region))
        .credentials_provider(credentials)
        .build();
    Client::from_conf(configuration)
}

/// An emulator wants to see credentials, not which.
fn dummy_credentials() -> Credentials {
    Credentials::new("demo", "demo", None, None, "demo")
}

/// Opens the file, or creates it.
fn kept(file: &Path) -> anyhow::Result<Database> {
    let cannot_keep = || format!("can't keep the database in {}", file.display());
    if is_something_else(file) {
        return Err(anyhow!("that is something else").context(cannot_keep()));
    }
    // SQLite takes some relative names for more than names: `:memory:`.
    let path = absolute(file).with_context(cannot_keep)?;
    let path = path.to_str().context("its name is not UTF-8");
    Database::new(path.with_context(cannot_keep)?)
        .map_err(|error| anyhow!("{error}").context(cannot_keep()))
}

/// Whether there is a directory of this name, or a file that is no SQLite database.
fn is_something_else(path: &Path) -> bool {
    const SQLITE: &[u8] = b"SQLite format 3\0";
    let mut start = Vec::new();
    let read = File::open(path).map(|file| file.take(16).read_to_end(&mut start));
    path.is_dir() || (matches!(read, Ok(Ok(1..))) && start != SQLITE)
}
