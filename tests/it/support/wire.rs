//! The SDK's HTTP layer: counts requests, and does to them what no emulator does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use lambda_idempotency::Clock as _;
use serde_json::{Value, json};

use super::conflicts::Conflicts;
use super::{ManualClock, server};

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
    /// It is sent once this much time has passed.
    SlowToArrive(Duration),
    /// It is sent and applied, and its answer comes once this much time has passed.
    SlowToAnswer(Duration),
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

pub(super) fn error(code: &str) -> Value {
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

impl Sent {
    fn read(request: &HttpRequest) -> Self {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        Self {
            operation: target.rsplit('.').next().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).unwrap(),
        }
    }
}

#[derive(Clone)]
pub struct Wire {
    inner: SharedHttpClient,
    clock: ManualClock,
    conflicts: Conflicts,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sent: Vec<Sent>,
    faults: VecDeque<(&'static str, Fault)>,
    always: Vec<Lasting>,
    late: Vec<(HttpRequest, SharedHttpConnector)>,
    in_flight: usize,
    most_in_flight: usize,
    answers_to_come: usize,
}

struct Lasting {
    operation: &'static str,
    fault: Fault,
    /// On the clock; for ever, if none is given.
    until: Option<SystemTime>,
}

impl Wire {
    pub fn new(clock: ManualClock) -> Self {
        Self {
            inner: server::http(),
            clock,
            conflicts: Conflicts::default(),
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
        self.last(operation, fault, None);
    }

    /// Every request of this operation fails so until this time.
    pub fn until(&self, until: SystemTime, operation: &'static str, fault: Fault) {
        self.last(operation, fault, Some(until));
    }

    fn last(&self, operation: &'static str, fault: Fault, until: Option<SystemTime>) {
        self.state.lock().unwrap().always.push(Lasting {
            operation,
            fault,
            until,
        });
    }

    /// From now on requests that meet on an item are refused, as DynamoDB does it.
    pub fn show_conflicts(&self) {
        self.conflicts.show();
    }

    /// How many requests were refused because they met another on an item.
    pub fn conflicts(&self) -> u32 {
        self.conflicts.refused()
    }

    /// How many requests the store itself has to answer.
    pub fn answers_to_come(&self) -> usize {
        self.state.lock().unwrap().answers_to_come
    }

    /// The most requests that were under way at one time.
    pub fn most_in_flight(&self) -> usize {
        self.state.lock().unwrap().most_in_flight
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

    /// Notes a request, and what happens to it.
    fn note(&self, sent: &Sent) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        state.sent.push(sent.clone());
        let planned = state
            .faults
            .iter()
            .position(|(of, _)| *of == sent.operation);
        if let Some(at) = planned {
            return state.faults.remove(at).map(|(_, fault)| fault);
        }
        let now = self.clock.now();
        let lasts = |lasting: &&Lasting| {
            lasting.operation == sent.operation && lasting.until.is_none_or(|until| now < until)
        };
        let lasting = state.always.iter().find(lasts);
        lasting.map(|lasting| lasting.fault.clone())
    }
}

/// A request under way.
struct InFlight(Arc<Mutex<State>>);

impl InFlight {
    fn new(state: &Arc<Mutex<State>>) -> Self {
        let mut counts = state.lock().unwrap();
        counts.in_flight += 1;
        counts.most_in_flight = counts.most_in_flight.max(counts.in_flight);
        Self(Arc::clone(state))
    }
}

/// A request that the store has, and has not answered.
struct Asked(Arc<Mutex<State>>);

impl Asked {
    fn new(state: &Arc<Mutex<State>>) -> Self {
        state.lock().unwrap().answers_to_come += 1;
        Self(Arc::clone(state))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.lock().unwrap().answers_to_come -= 1;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.lock().unwrap().in_flight -= 1;
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
        let (inner, wire) = (self.inner.clone(), self.wire.clone());
        let sent = Sent::read(&request);
        let fault = wire.note(&sent);
        let in_flight = InFlight::new(&wire.state);
        HttpConnectorFuture::new(async move {
            let _in_flight = in_flight;
            let send = async |request| {
                let _asked = Asked::new(&wire.state);
                match wire.conflicts.begin(&sent.operation, &sent.body) {
                    Ok(_under_way) => whole(inner.call(request).await?).await,
                    Err(refusal) => Ok(response(400, &refusal)),
                }
            };
            let Some(fault) = fault else {
                return send(request).await;
            };
            match fault {
                Fault::Answer(status, body) => Ok(response(status, &body)),
                Fault::AnswerInstead(status, body) => {
                    send(request).await?;
                    Ok(response(status, &body))
                }
                Fault::LostReply => {
                    send(request).await?;
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
                    send(request).await?;
                    wire.clock.advance(time);
                    std::future::pending().await
                }
                Fault::SlowToArrive(time) => {
                    wire.clock.sleep(time).await;
                    send(request).await
                }
                Fault::SlowToAnswer(time) => {
                    let answer = send(request).await?;
                    wire.clock.sleep(time).await;
                    Ok(answer)
                }
            }
        })
    }
}

/// The answer once its body is there too.
async fn whole(answer: HttpResponse) -> Result<HttpResponse, ConnectorError> {
    let mut answer = answer;
    let body = ByteStream::new(answer.take_body()).collect().await;
    let body = body.map_err(|error| ConnectorError::io(error.into()))?;
    *answer.body_mut() = SdkBody::from(body.into_bytes());
    Ok(answer)
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
