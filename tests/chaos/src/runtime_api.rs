//! Lambda's Runtime API, for one worker process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

const PREFIX: &str = "/2018-06-01/runtime/";

/// What a worker says.
pub(crate) enum Said {
    /// It waits for an invocation.
    Next(oneshot::Sender<Invocation>),
    /// What came of one: the response, or an error.
    Ended {
        invocation: String,
        response: Result<Bytes, Bytes>,
    },
    /// It could not start.
    InitError(Bytes),
}

pub(crate) struct Invocation {
    pub(crate) id: usize,
    pub(crate) deadline: SystemTime,
    pub(crate) event: String,
}

/// Where a worker finds its Runtime API, and what it says there.
pub(crate) async fn serve() -> anyhow::Result<(u16, mpsc::UnboundedReceiver<Said>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let (say, said) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let stream = tokio::select! {
                stream = listener.accept() => stream,
                // The worker is gone, and its successor has an address of its own.
                () = say.closed() => return,
            };
            let Ok((stream, _)) = stream else { return };
            let say = say.clone();
            let service = service_fn(move |request| answer(request, say.clone()));
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok((port, said))
}

async fn answer(
    request: Request<Incoming>,
    say: mpsc::UnboundedSender<Said>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let path: Vec<_> = path.split('/').collect();
    let said = match (head.method, path.as_slice()) {
        (Method::GET, ["invocation", "next"]) => {
            let (give, given) = oneshot::channel();
            let _ = say.send(Said::Next(give));
            // Lambda does not answer either as long as there is nothing to do.
            return Ok(match given.await {
                Ok(invocation) => invocation.into_response(),
                Err(_) => std::future::pending().await,
            });
        }
        (Method::POST, ["invocation", id, "response"]) => Said::Ended {
            invocation: (*id).to_owned(),
            response: Ok(body),
        },
        (Method::POST, ["invocation", id, "error"]) => Said::Ended {
            invocation: (*id).to_owned(),
            response: Err(body),
        },
        (Method::POST, ["init", "error"]) => Said::InitError(body),
        _ => return Ok(plain(StatusCode::NOT_FOUND)),
    };
    let _ = say.send(said);
    Ok(plain(StatusCode::ACCEPTED))
}

impl Invocation {
    fn into_response(self) -> Response<Full<Bytes>> {
        let deadline = (self.deadline.duration_since(UNIX_EPOCH)).unwrap_or(Duration::ZERO);
        let mut response = Response::new(Full::new(self.event.into()));
        for (name, value) in [
            ("lambda-runtime-aws-request-id", self.id.to_string()),
            (
                "lambda-runtime-deadline-ms",
                deadline.as_millis().to_string(),
            ),
            (
                "lambda-runtime-invoked-function-arn",
                "arn:aws:lambda:us-east-1:123456789012:function:payments".to_owned(),
            ),
            ("content-type", "application/json".to_owned()),
        ] {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
