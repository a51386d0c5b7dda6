//! The SDK's HTTP layer: counts requests, and does to them what no emulator does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

use super::ManualClock;

/// What happens to one request instead of being sent and answered.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not sent; this answer comes instead.
    Answer(u16, Value),
    /// It is sent and applied; this answer comes instead of the real one.
    AnswerInstead(u16, Value),
    /// It is sent and applied, and the connection breaks before the answer.
    LostReply,
    /// The connection breaks before it is sent.
    Reset,
    /// Nobody listens.
    Refused,
    /// It is kept, and the connection breaks; [`Wire::deliver_late`] sends it.
    Late,
    /// It is not sent, no answer comes, and this much time passes.
    Silence(Duration),
    /// It is sent and applied, no answer comes, and this much time passes.
    AppliedThenSilence(Duration),
}

impl Fault {
    /// An error of DynamoDB with this code; status 500 for those of the server.
    pub fn code(code: &str) -> Self {
        let status = if code == "InternalServerError" {
            500
        } else {
            400
        };
        Self::Answer(status, error(code))
    }

    /// A cancelled transaction with these reasons.
    pub fn cancelled(codes: &[&str]) -> Self {
        let reasons: Vec<Value> = codes.iter().map(|code| json!({ "Code": code })).collect();
        let mut body = error("TransactionCanceledException");
        body["CancellationReasons"] = reasons.into();
        Self::Answer(400, body)
    }

    /// A cancelled transaction with this item in the first reason.
    pub fn record_refused(item: Value) -> Self {
        let mut body = error("TransactionCanceledException");
        body["CancellationReasons"] =
            json!([{ "Code": "ConditionalCheckFailed", "Item": item }, { "Code": "None" }]);
        Self::Answer(400, body)
    }
}

fn error(code: &str) -> Value {
    json!({
        "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"),
        "message": format!("injected {code}"),
    })
}

/// A request as it went over the wire.
#[derive(Clone, Debug)]
pub struct Sent {
    pub operation: String,
    pub body: Value,
}

#[derive(Clone)]
pub struct Wire {
    inner: SharedHttpClient,
    clock: ManualClock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sent: Vec<Sent>,
    faults: VecDeque<(&'static str, Fault)>,
    always: Vec<(&'static str, Fault)>,
    late: Vec<(HttpRequest, SharedHttpConnector)>,
}

impl Wire {
    pub fn new(clock: ManualClock) -> Self {
        Self {
            inner: aws_smithy_http_client::Builder::new().build_http(),
            clock,
            state: Arc::default(),
        }
    }

    /// The next request of this operation (`PutItem`, …) fails so. Faults of one operation are
    /// used up in order.
    pub fn next(&self, operation: &'static str, fault: Fault) {
        self.state
            .lock()
            .unwrap()
            .faults
            .push_back((operation, fault));
    }

    /// Every request of this operation fails so, until [`heal`](Self::heal).
    pub fn always(&self, operation: &'static str, fault: Fault) {
        self.state.lock().unwrap().always.push((operation, fault));
    }

    pub fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        state.always.clear();
        state.faults.clear();
    }

    /// Sends the requests that were kept back, and waits for their answers.
    pub async fn deliver_late(&self) -> Vec<u16> {
        let late = std::mem::take(&mut self.state.lock().unwrap().late);
        let mut statuses = Vec::new();
        for (request, connector) in late {
            statuses.push(connector.call(request).await.unwrap().status().as_u16());
        }
        statuses
    }

    /// The requests since the last call of this, in order.
    pub fn take_sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state.lock().unwrap().sent)
    }

    /// The operations since the last call of this or of [`take_sent`](Self::take_sent), in order.
    pub fn take_operations(&self) -> Vec<String> {
        let sent = self.take_sent();
        sent.into_iter().map(|sent| sent.operation).collect()
    }

    /// Faults that no request has met: a test that leaves some has not tried what it says.
    pub fn unused_faults(&self) -> usize {
        self.state.lock().unwrap().faults.len()
    }

    fn fault(&self, request: &HttpRequest) -> Option<Fault> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        state.sent.push(Sent {
            body: serde_json::from_slice(body).unwrap(),
            operation: operation.clone(),
        });
        let planned = state.faults.iter().position(|(of, _)| *of == operation);
        match planned {
            Some(at) => state.faults.remove(at).map(|(_, fault)| fault),
            None => {
                let always = state.always.iter().find(|(of, _)| *of == operation);
                always.map(|(_, fault)| fault.clone())
            }
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            inner: self.inner.http_connector(settings, components),
            wire: self.clone(),
        })
    }
}

#[derive(Debug)]
struct Connector {
    inner: SharedHttpConnector,
    wire: Wire,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Some(fault) = self.wire.fault(&request) else {
            return self.inner.call(request);
        };
        let (inner, wire) = (self.inner.clone(), self.wire.clone());
        HttpConnectorFuture::new(async move {
            match fault {
                Fault::Answer(status, body) => Ok(response(status, &body)),
                Fault::AnswerInstead(status, body) => {
                    inner.call(request).await?;
                    Ok(response(status, &body))
                }
                Fault::LostReply => {
                    inner.call(request).await?;
                    Err(broken(std::io::ErrorKind::ConnectionReset))
                }
                Fault::Reset => Err(broken(std::io::ErrorKind::ConnectionReset)),
                Fault::Refused => Err(broken(std::io::ErrorKind::ConnectionRefused)),
                Fault::Late => {
                    wire.state.lock().unwrap().late.push((request, inner));
                    Err(broken(std::io::ErrorKind::ConnectionReset))
                }
                Fault::Silence(time) => {
                    wire.clock.advance(time);
                    std::future::pending().await
                }
                Fault::AppliedThenSilence(time) => {
                    inner.call(request).await?;
                    wire.clock.advance(time);
                    std::future::pending().await
                }
            }
        })
    }
}

fn broken(kind: std::io::ErrorKind) -> ConnectorError {
    ConnectorError::io(Box::new(std::io::Error::from(kind)))
}

fn response(status: u16, body: &Value) -> HttpResponse {
    let body = SdkBody::from(body.to_string());
    let mut response = HttpResponse::new(StatusCode::try_from(status).unwrap(), body);
    response
        .headers_mut()
        .insert("content-type", "application/x-amz-json-1.0");
    response
}
