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
    pub(crate) body: Value,
    /// `None`: the connection broke.
    pub(crate) status: Option<u16>,
    reply: Vec<u8>,
}

/// What a request does with one message's record.
pub(crate) struct Touch<'s> {
    pub(crate) message_id: &'s str,
    pub(crate) kind: Kind,
    pub(crate) action: &'s Value,
    /// The other items that it writes for the message.
    pub(crate) effects: Vec<&'s Value>,
    /// Its place in a transaction.
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Claim,
    Complete,
    Release,
    Read,
}

impl<'s> Touch<'s> {
    /// The token and the fingerprint, as attribute values.
    pub(crate) fn token(&self) -> &'s Value {
        match &self.action["Item"]["claim_token"] {
            Value::Null => &self.action["ExpressionAttributeValues"][":token"],
            token => token,
        }
    }

    pub(crate) fn fingerprint(&self) -> &'s Value {
        &self.action["Item"]["validation"]
    }
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

    /// Whether the reply may show a record, and is no JSON by the rules: the SDK does not look into
    /// every text that it skips.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let is_json = serde_json::from_slice::<Value>(&self.reply).is_ok();
        let words: [&[u8]; 2] = [b"COMPLETED", b"INPROGRESS"];
        let has = |word: &[u8]| self.reply.windows(word.len()).any(|part| part == word);
        !is_json && words.into_iter().any(has)
    }

    /// What it does with records; the message is the one that the record's id names.
    pub(crate) fn touches(&self) -> Vec<Touch<'_>> {
        let kind_of_put = |put: &Value| match put["Item"]["status"]["S"].as_str() {
            Some("INPROGRESS") => Kind::Claim,
            _ => Kind::Complete,
        };
        let kind = match self.operation.as_str() {
            "TransactWriteItems" => return self.in_transaction(),
            "PutItem" => kind_of_put(&self.body),
            "UpdateItem" => Kind::Complete,
            "DeleteItem" => Kind::Release,
            "GetItem" => Kind::Read,
            other => panic!("a request that the store never sends: {other}"),
        };
        vec![Touch {
            message_id: message_of(&self.body).expect("a record of this consumer"),
            kind,
            action: &self.body,
            effects: Vec::new(),
            at: 0,
        }]
    }

    fn in_transaction(&self) -> Vec<Touch<'_>> {
        let mut touches: Vec<Touch<'_>> = Vec::new();
        for (at, action) in self.body["TransactItems"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            let action = action.as_object().unwrap().values().next().unwrap();
            match (message_of(action), touches.last_mut()) {
                (Some(message_id), _) => touches.push(Touch {
                    message_id,
                    kind: Kind::Complete,
                    action,
                    effects: Vec::new(),
                    at,
                }),
                (None, Some(last)) => last.effects.push(action),
                (None, None) => panic!("a transaction begins with a record: {}", self.body),
            }
        }
        touches
    }

    /// The items that the reply shows of this message's record, wherever a reply can show one.
    pub(crate) fn items(&self, touch: &Touch<'_>) -> Vec<Value> {
        let reply: Value = serde_json::from_slice(&self.reply).unwrap_or_default();
        let in_reasons = format!("/CancellationReasons/{}/Item", touch.at);
        let places = ["/Item", &in_reasons];
        let found = places.iter().filter_map(|place| reply.pointer(place));
        found.cloned().collect()
    }
}

/// Whose record an action is for, if it is for a record.
fn message_of(action: &Value) -> Option<&str> {
    let places = ["/Item/id/S", "/Key/id/S"];
    let record_id = places
        .iter()
        .find_map(|place| action.pointer(place)?.as_str())?;
    record_id.strip_prefix(CONSUMER)?.strip_prefix('#')
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
        let mut sent = Sent {
            operation,
            body,
            status: Some(200),
            reply: b"{}".to_vec(),
        };
        let touches = sent.touches();
        let is_answered = touches.iter().any(|t| t.message_id == self.message_id);
        let answer = is_answered.then(|| self.answers.pop_front()).flatten();
        match answer {
            Some(Answer::Reply(status, reply)) => {
                sent.reply = self.filled(reply, &sent);
                sent.status = Some(status);
            }
            Some(Answer::Reset) => sent.status = None,
            None => {}
        }
        let answer = match sent.status {
            Some(status) => Answer::Reply(status, sent.reply.clone()),
            None => Answer::Reset,
        };
        self.sent.push(sent);
        answer
    }

    /// The reply with the attempt's token and fingerprint in it, as far as they are known.
    fn filled(&self, reply: Vec<u8>, now: &Sent) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(&reply) else {
            return reply;
        };
        let requests = self.sent.iter().chain([now]);
        let touches: Vec<Touch<'_>> = requests.flat_map(Sent::touches).collect();
        let own = || touches.iter().filter(|t| t.message_id == self.message_id);
        let token = own().find_map(|touch| touch.token()["S"].as_str());
        let fingerprint = own().find_map(|touch| touch.fingerprint()["S"].as_str());
        text.replace("$TOKEN", token.unwrap_or_default())
            .replace("$FINGERPRINT", fingerprint.unwrap_or_default())
            .into_bytes()
    }
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
