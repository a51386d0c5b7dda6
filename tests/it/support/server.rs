//! One embedded DynamoDB for the whole test process, or the store that
//! `AWS_ENDPOINT_URL_DYNAMODB` names: an emulator on this machine, or DynamoDB itself.

use std::sync::LazyLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

static EMBEDDED: LazyLock<String> = LazyLock::new(start_embedded);

/// The store that the environment names, if it names one.
static NAMED: LazyLock<Option<String>> =
    LazyLock::new(|| std::env::var("AWS_ENDPOINT_URL_DYNAMODB").ok());

/// Whether the store ends with this process, and its tables with it.
pub fn is_embedded() -> bool {
    NAMED.is_none()
}

/// A client of the store, over this HTTP client.
pub async fn client(http: SharedHttpClient) -> Client {
    let endpoint = NAMED.as_ref().unwrap_or_else(|| &EMBEDDED);
    let mut config = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .endpoint_url(endpoint);
    // An emulator wants some credentials, and never those of an account. Of a store elsewhere the
    // environment says who may use it, and in which Region it is.
    if is_on_this_machine(endpoint) {
        let nobody = Credentials::new("test", "test", None, None, "tests");
        config = config
            .credentials_provider(nobody)
            .region(Region::new("eu-west-1"));
    }
    Client::new(&config.load().await)
}

/// An HTTP client that can reach the store.
pub fn http() -> SharedHttpClient {
    let builder = aws_smithy_http_client::Builder::new();
    if NAMED.as_ref().is_some_and(|url| url.starts_with("https:")) {
        let tls = Provider::Rustls(CryptoMode::AwsLc);
        return builder.tls_provider(tls).build_https();
    }
    builder.build_http()
}

fn is_on_this_machine(endpoint: &str) -> bool {
    let authority = endpoint.split("//").nth(1).unwrap_or_default();
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| {
        let rest = authority.strip_prefix(host);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    })
}

fn start_embedded() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // Each test has a runtime of its own; the server outlives them all.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let database = dynoxide::Database::memory().unwrap();
            dynoxide::server::serve_with_shutdown(listener, database, std::future::pending())
                .await
                .unwrap();
        });
    });
    endpoint
}

#[test]
fn only_a_store_on_this_machine_is_asked_without_the_environment_s_credentials() {
    for here in [
        "http://127.0.0.1:8000",
        "http://localhost",
        "http://[::1]:4566/",
    ] {
        assert!(is_on_this_machine(here), "{here}");
    }
    for elsewhere in [
        "https://dynamodb.eu-west-1.amazonaws.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com:80",
        "nonsense",
    ] {
        assert!(!is_on_this_machine(elsewhere), "{elsewhere}");
    }
}
