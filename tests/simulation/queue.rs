//! The queue, standard or FIFO: what the producer sends, and who is given it when.

use serde_json::{Value, json};

use crate::order::{Order, Work};
use crate::rng::Rng;
use crate::setup::Setup;

const ARN: &str = "arn:aws:sqs:eu-west-1:123456789012:simulated";

/// In percent of the receives of a standard queue: a message comes twice in a batch; one comes that
/// was deleted.
const TWICE: u64 = 3;
const DELETED: u64 = 1;

pub struct Message {
    pub id: String,
    pub order: Order,
    pub group: String,
    pub arrives: u64,
    state: State,
    receives: u32,
    visible_from: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotSent,
    Waiting,
    Deleted,
    /// Moved to the dead-letter queue.
    Dead,
}

/// A message as it was given to an invocation.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its place in the queue.
    pub message: usize,
    pub id: String,
    receive: u32,
}

pub struct Queue {
    is_fifo: bool,
    /// In the order in which they are sent.
    pub messages: Vec<Message>,
}

impl Queue {
    pub fn by(setup: &Setup, rng: &mut Rng) -> Self {
        let mut messages: Vec<Message> = Vec::new();
        let mut arrives = 0;
        let longest_gap = (setup.faults_end / setup.messages).max(1);
        // Most come at once, so that they meet.
        let longest_gap = rng.pick(&[longest_gap, longest_gap / 20, 1]);
        for number in 0..setup.messages {
            arrives += rng.below(longest_gap + 1);
            let chance = rng.below(100);
            let earlier = match messages.len() {
                0 => None,
                length => Some(rng.index(length)),
            };
            let (order, group) = match earlier.map(|at| (&messages[at].order, &messages[at].group))
            {
                Some((order, group)) if chance < setup.repeated => (order.clone(), group.clone()),
                Some((order, group)) if chance < setup.repeated + setup.reused => {
                    let mut order = order.clone();
                    order.payload = "other".to_owned();
                    (order, group.clone())
                }
                _ => (
                    order(number, setup.items, rng),
                    format!("g{}", rng.below(setup.groups)),
                ),
            };
            messages.push(Message {
                id: format!("m{number}"),
                order,
                group,
                arrives,
                state: State::NotSent,
                receives: 0,
                visible_from: 0,
            });
        }
        Self {
            is_fifo: setup.is_fifo,
            messages,
        }
    }

    pub fn send(&mut self, message: usize) {
        self.messages[message].state = State::Waiting;
    }

    /// Gives at most `most` messages that are visible; they are not until `visible_from` then.
    pub fn receive(
        &mut self,
        now: u64,
        most: usize,
        visible_from: u64,
        rng: &mut Rng,
        has_faults: bool,
    ) -> Vec<Delivery> {
        let mut chosen = if self.is_fifo {
            self.first_of_groups(now, rng)
        } else {
            let mut visible = self.visible(now, rng, has_faults);
            shuffle(&mut visible, rng);
            visible
        };
        chosen.truncate(most);
        if !self.is_fifo && has_faults && chosen.len() < most && rng.percent(TWICE) {
            chosen.extend(chosen.first().copied());
        }
        chosen
            .into_iter()
            .map(|at| {
                let message = &mut self.messages[at];
                message.receives += 1;
                message.visible_from = visible_from;
                Delivery {
                    message: at,
                    id: message.id.clone(),
                    receive: message.receives,
                }
            })
            .collect()
    }

    fn visible(&self, now: u64, rng: &mut Rng, has_faults: bool) -> Vec<usize> {
        let indexes = 0..self.messages.len();
        indexes
            .filter(|at| {
                let message = &self.messages[*at];
                match message.state {
                    State::Waiting => message.visible_from <= now,
                    State::Deleted => has_faults && rng.percent(DELETED),
                    State::NotSent | State::Dead => false,
                }
            })
            .collect()
    }

    /// In order within each group, and none of a group of which one is out. The groups are mixed.
    fn first_of_groups(&self, now: u64, rng: &mut Rng) -> Vec<usize> {
        let waiting = |at: &usize| self.messages[*at].state == State::Waiting;
        let is_out = |at: &usize| self.messages[*at].visible_from > now;
        let all: Vec<usize> = (0..self.messages.len()).filter(waiting).collect();
        let blocked: Vec<&str> = all
            .iter()
            .filter(|at| is_out(at))
            .map(|at| self.messages[*at].group.as_str())
            .collect();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for at in all {
            let group = &self.messages[at].group;
            if blocked.contains(&group.as_str()) {
                continue;
            }
            match groups
                .iter_mut()
                .find(|members| self.messages[members[0]].group == *group)
            {
                Some(members) => members.push(at),
                None => groups.push(vec![at]),
            }
        }
        for group in &mut groups {
            group.reverse();
        }
        let mut mixed = Vec::new();
        while !groups.is_empty() {
            let chosen = rng.index(groups.len());
            mixed.extend(groups[chosen].pop());
            groups.retain(|group| !group.is_empty());
        }
        mixed
    }

    /// The event source mapping deletes a message. A FIFO queue accepts that only while the
    /// receipt holds.
    pub fn delete(&mut self, delivery: &Delivery, now: u64) {
        let is_fifo = self.is_fifo;
        let message = &mut self.messages[delivery.message];
        let holds = message.receives == delivery.receive && message.visible_from > now;
        if message.state == State::Waiting && (holds || !is_fifo) {
            message.state = State::Deleted;
        }
    }

    /// The event source mapping gives a message back before its time-out.
    pub fn give_back(&mut self, delivery: &Delivery, now: u64) {
        let message = &mut self.messages[delivery.message];
        if message.receives == delivery.receive {
            message.visible_from = message.visible_from.min(now);
        }
    }

    pub fn bury(&mut self, message: usize) {
        self.messages[message].state = State::Dead;
    }

    pub fn is_dead(&self, message: usize) -> bool {
        self.messages[message].state == State::Dead
    }

    /// Whether every message is deleted or dead.
    pub fn is_done(&self) -> bool {
        let mut states = self.messages.iter().map(|message| message.state);
        states.all(|state| matches!(state, State::Deleted | State::Dead))
    }

    pub fn not_done(&self) -> Vec<&str> {
        let waiting = |message: &&Message| matches!(message.state, State::Waiting | State::NotSent);
        let messages = self.messages.iter().filter(waiting);
        messages.map(|message| message.id.as_str()).collect()
    }

    /// The batch as Lambda gets it.
    pub fn event(&self, deliveries: &[Delivery]) -> Value {
        let records: Vec<Value> = deliveries
            .iter()
            .map(|delivery| {
                let message = &self.messages[delivery.message];
                let mut record = json!({
                    "messageId": message.id,
                    "receiptHandle": format!("{}-{}", message.id, delivery.receive),
                    "body": serde_json::to_string(&message.order).unwrap(),
                    "attributes": { "ApproximateReceiveCount": delivery.receive.to_string() },
                    "eventSource": "aws:sqs",
                    "eventSourceARN": ARN,
                });
                if self.is_fifo {
                    record["eventSourceARN"] = format!("{ARN}.fifo").into();
                    record["attributes"]["MessageGroupId"] = message.group.as_str().into();
                }
                record
            })
            .collect();
        json!({ "Records": records })
    }
}

fn order(number: u64, items: u64, rng: &mut Rng) -> Order {
    let account = format!("a{}", rng.below(items));
    let amount = rng.between(1, 50);
    let work = match rng.below(10) {
        0 | 1 => Work::Count,
        2 => Work::Nothing,
        3 | 4 => Work::Deposit { account, amount },
        5 | 6 => Work::Withdraw { account, amount },
        7 => Work::Seat {
            seat: format!("s{}", rng.below(items + 1)),
        },
        8 => Work::Profile {
            id: format!("p{}", rng.below(items)),
            version: rng.between(1, 9),
        },
        _ => Work::Gate {
            gate: format!("gate{}", rng.below(2)),
        },
    };
    Order {
        key: format!("k{number}"),
        payload: "first".to_owned(),
        work,
    }
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.index(at + 1));
    }
}
