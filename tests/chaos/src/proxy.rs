//! The network between one worker and the store: it loses requests, answers, and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::faults::{Cut, Faults, When};
use crate::slot::Slot;
use crate::store::Store;

type Request = hyper::Request<Full<Bytes>>;
type Response = hyper::Response<Full<Bytes>>;

/// What all proxies share.
pub(crate) struct Network {
    store: Arc<Store>,
    faults: Arc<Faults>,
    cuts: AtomicUsize,
    late: AtomicUsize,
    under_way: AtomicUsize,
}

impl Network {
    pub(crate) fn new(store: Arc<Store>, faults: Arc<Faults>) -> Self {
        Self {
            store,
            faults,
            cuts: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
        }
    }

    /// Connections that were cut, whatever became of the request.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Requests that arrived when their sender had given them up.
    pub(crate) fn late(&self) -> usize {
        self.late.load(Ordering::Relaxed)
    }

    /// Returns when no request is under way any more.
    pub(crate) async fn is_quiet(&self) {
        while self.under_way.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Serves one worker's connections to the store, and says at which port.
    pub(crate) async fn connect(self: &Arc<Self>, slot: Arc<Slot>) -> anyhow::Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let network = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (network, slot) = (Arc::clone(&network), Arc::clone(&slot));
                let pass = service_fn(move |request| {
                    let (network, slot) = (Arc::clone(&network), Arc::clone(&slot));
                    async move { network.pass(&slot, request).await }
                });
                // An error of the service closes the connection without an answer.
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), pass));
            }
        });
        Ok(port)
    }

    async fn pass(
        self: Arc<Self>,
        slot: &Arc<Slot>,
        request: hyper::Request<Incoming>,
    ) -> anyhow::Result<Response> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let request = Request::from_parts(head, Full::new(body));
        let counted = slot.request();
        let strikes_at = |when: When| {
            let armed = slot.armed(counted.invocation).map(|(_, when)| when);
            armed == Some(when)
        };
        for late in [false, true] {
            let number = counted.number;
            if strikes_at(When::Sent {
                request: number,
                late,
            }) {
                slot.strike(counted.invocation);
                if late {
                    self.forward_late(request, self.faults.past_takeover());
                    bail!("the request is late, and nobody waits for its answer");
                }
            }
        }
        match counted.outage.or_else(|| self.faults.cut(counted.cuts)) {
            None => {}
            Some(cut) => {
                self.cuts.fetch_add(1, Ordering::Relaxed);
                match cut {
                    Cut::Before => {}
                    Cut::After => drop(self.forward(request, Duration::ZERO).await),
                    Cut::Late(by) => self.forward_late(request, by),
                }
                bail!("cut");
            }
        }
        let response = self.forward(request, self.faults.latency()).await?;
        if strikes_at(When::Applied {
            request: counted.number,
        }) {
            slot.strike(counted.invocation);
        }
        if let Some((_, When::Answered { request, after })) = slot.armed(counted.invocation)
            && request == counted.number
        {
            let slot = Arc::clone(slot);
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                slot.strike(counted.invocation);
            });
        }
        Ok(response)
    }

    fn forward_late(self: &Arc<Self>, request: Request, by: Duration) {
        self.late.fetch_add(1, Ordering::Relaxed);
        drop(self.forward(request, by));
    }

    /// Sends a request to the store, also if nobody waits for the answer any more.
    fn forward(
        self: &Arc<Self>,
        request: Request,
        after: Duration,
    ) -> impl Future<Output = anyhow::Result<Response>> + use<> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let network = Arc::clone(self);
        let forwarded = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let response = send(network.store.port(), request).await;
            network.under_way.fetch_sub(1, Ordering::Relaxed);
            response
        });
        async move { forwarded.await? }
    }
}

async fn send(port: u16, request: Request) -> anyhow::Result<Response> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(head, Full::new(body)))
}
