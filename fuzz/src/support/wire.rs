//! The SDK's HTTP layer: answers with the bytes of the input, and keeps what was sent.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;

use super::CONSUMER;

/// What comes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Reply(u16, Vec<u8>),
    Reset,
}

/// A request, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) operation: String,
    /// Whose record it is for.
    pub(crate) message_id: String,
    pub(crate) body: Value,
    /// `None`: the connection broke.
    pub(crate) status: Option<u16>,
    reply: Vec<u8>,
}

impl Sent {
    pub(crate) fn is_success(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// A success that anyone would read as one.
    pub(crate) fn is_plain_success(&self) -> bool {
        self.is_success() && self.reply == b"{}"
    }

    /// The items of the record that the reply shows, wherever a reply can show one.
    pub(crate) fn items(&self) -> Vec<Value> {
        let reply: Value = serde_json::from_slice(&self.reply).unwrap_or_default();
        let places = ["/Item", "/CancellationReasons/0/Item"];
        places
            .iter()
            .filter_map(|place| reply.pointer(place).cloned())
            .collect()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    message_id: &'static str,
    answers: VecDeque<Answer>,
    sent: Vec<Sent>,
}

impl Wire {
    /// From now on requests for this message's record get these answers in order; any other request
    /// succeeds.
    pub(crate) fn answer_for(&self, message_id: &'static str, answers: VecDeque<Answer>) {
        *self.state() = State {
            message_id,
            answers,
            sent: Vec::new(),
        };
    }

    pub(crate) fn take_sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state().sent)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // An input that failed leaves nothing behind for the next.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answer(&mut self, request: &HttpRequest) -> Answer {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap();
        let places = [
            "/Item/id/S",
            "/Key/id/S",
            "/TransactItems/0/Update/Key/id/S",
        ];
        let record_id = places
            .iter()
            .find_map(|place| body.pointer(place)?.as_str());
        let record_id = record_id.expect("every request is for one record");
        let message_id = record_id
            .strip_prefix(CONSUMER)
            .and_then(|id| id.strip_prefix('#'));
        let message_id = message_id.unwrap_or_default().to_owned();
        let is_answered = message_id == self.message_id;
        let answer = is_answered.then(|| self.answers.pop_front()).flatten();
        let answer = match answer {
            Some(Answer::Reply(status, reply)) => {
                let claim = self.sent.iter().find(|sent| sent.message_id == message_id);
                let claim = claim.map_or(&body, |sent| &sent.body);
                Answer::Reply(status, filled(reply, claim))
            }
            Some(Answer::Reset) => Answer::Reset,
            None => Answer::Reply(200, b"{}".to_vec()),
        };
        let (status, reply) = match &answer {
            Answer::Reply(status, reply) => (Some(*status), reply.clone()),
            Answer::Reset => (None, Vec::new()),
        };
        self.sent.push(Sent {
            operation,
            message_id,
            body,
            status,
            reply,
        });
        answer
    }
}

/// The reply with the claim's token and fingerprint in it.
fn filled(reply: Vec<u8>, claim: &Value) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&reply) else {
        return reply;
    };
    let of_claim = |place| {
        claim
            .pointer(place)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    text.replace("$TOKEN", of_claim("/Item/claim_token/S"))
        .replace("$FINGERPRINT", of_claim("/Item/validation/S"))
        .into_bytes()
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(match self.state().answer(&request) {
            Answer::Reply(status, body) => {
                let status = StatusCode::try_from(status).unwrap();
                let mut response = HttpResponse::new(status, SdkBody::from(body));
                let json = "application/x-amz-json-1.0";
                response.headers_mut().insert("content-type", json);
                Ok(response)
            }
            Answer::Reset => {
                let reset = io::Error::from(io::ErrorKind::ConnectionReset);
                Err(ConnectorError::io(Box::new(reset)))
            }
        })
    }
}
