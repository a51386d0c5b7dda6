//! Passes HTTP/1.1 requests on, one after another a connection, after a delay.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

/// What the proxy is told and what it has seen.
#[derive(Clone, Default)]
pub(crate) struct Proxy {
    delay_micros: Arc<AtomicU64>,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Proxy {
    pub(crate) fn delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) async fn serve(self, listener: TcpListener, upstream: SocketAddr) {
        while let Ok((client, _)) = listener.accept().await {
            let proxy = self.clone();
            // A connection that breaks is the client's to notice.
            tokio::spawn(async move {
                let _ = proxy.connection(client, upstream).await;
            });
        }
    }

    async fn connection(self, client: TcpStream, upstream: SocketAddr) -> std::io::Result<()> {
        let server = TcpStream::connect(upstream).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let replies = tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
        let mut from_client = BufReader::with_capacity(64 * 1024, from_client);
        let mut request = Vec::new();
        while self.read(&mut from_client, &mut request).await? {
            let micros = self.delay_micros.load(Ordering::Relaxed);
            if micros > 0 {
                sleep_until(Instant::now() + Duration::from_micros(micros)).await;
            }
            to_server.write_all(&request).await?;
        }
        to_server.shutdown().await?;
        let _ = replies.await;
        Ok(())
    }

    /// Reads one request as a whole, and counts it; `false` if there is no more.
    async fn read(
        &self,
        from: &mut (impl AsyncBufRead + Unpin),
        request: &mut Vec<u8>,
    ) -> std::io::Result<bool> {
        request.clear();
        let mut length = 0;
        let mut operation = None;
        loop {
            let start = request.len();
            if from.read_until(b'\n', request).await? == 0 {
                return Ok(false);
            }
            let line = String::from_utf8_lossy(request.get(start..).unwrap_or_default());
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                let value = value.trim();
                if name.eq_ignore_ascii_case("content-length") {
                    let parsed = value.parse();
                    length = parsed.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
                } else if name.eq_ignore_ascii_case("transfer-encoding") {
                    return Err(Error::new(ErrorKind::Unsupported, "a request in chunks"));
                } else if name.eq_ignore_ascii_case("x-amz-target") {
                    operation = value.rsplit('.').next().map(str::to_owned);
                }
            }
        }
        from.take(length).read_to_end(request).await?;
        let operation = operation.unwrap_or_else(|| "other".to_owned());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(operation).or_default() += 1;
        Ok(true)
    }
}
