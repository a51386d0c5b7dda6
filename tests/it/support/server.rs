//! One embedded DynamoDB for the whole test process, or the store that
//! `AWS_ENDPOINT_URL_DYNAMODB` names.

use std::sync::LazyLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};

static EMBEDDED: LazyLock<String> = LazyLock::new(start_embedded);

/// A client of the store, over this HTTP client.
pub async fn client(http: SharedHttpClient) -> Client {
    let mut config = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if std::env::var_os("AWS_ENDPOINT_URL_DYNAMODB").is_none() {
        config = config.endpoint_url(EMBEDDED.as_str());
    }
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
        let nobody = Credentials::new("test", "test", None, None, "tests");
        config = config
            .credentials_provider(nobody)
            .region(Region::new("eu-west-1"));
    }
    Client::new(&config.load().await)
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
