//! The queue: messages that are hidden while they are worked on, and come back unless deleted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::payments::Payment;

/// A standard queue may deliver a message twice at once. This one does so far more often than SQS: one in
/// so many is not hidden.
const DELIVERED_TWICE_IN: usize = 10;

/// Which of the messages is received is up to the queue: one of the so many oldest that can be seen.
const OUT_OF_ORDER: usize = 50;

pub(crate) struct Queue {
    rng: Rng,
    visibility: Duration,
    max_receives: u32,
    messages: Vec<Message>,
    /// Those that are neither deleted nor in the dead-letter queue.
    waiting: BTreeSet<usize>,
    dead: Vec<usize>,
    deliveries: usize,
}

struct Message {
    payment: Payment,
    visible_at: Instant,
    receives: u32,
    is_deleted: bool,
}

/// A message as it is received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) number: usize,
    pub(crate) payment: Payment,
    pub(crate) receives: u32,
}

impl Received {
    pub(crate) fn message_id(&self) -> String {
        format!("m-{}", self.number)
    }
}

impl Queue {
    pub(crate) fn new(rng: Rng, visibility: Duration, max_receives: u32) -> Self {
        Self {
            rng,
            visibility,
            max_receives,
            messages: Vec::new(),
            waiting: BTreeSet::new(),
            dead: Vec::new(),
            deliveries: 0,
        }
    }

    pub(crate) fn send(&mut self, payments: Vec<Payment>) {
        for payment in payments {
            self.waiting.insert(self.messages.len());
            self.messages.push(Message {
                payment,
                visible_at: Instant::now(),
                receives: 0,
                is_deleted: false,
            });
        }
    }

    /// Up to `most` messages; none if none can be seen.
    pub(crate) fn receive(&mut self, most: usize) -> Vec<Received> {
        let now = Instant::now();
        let mut visible: Vec<_> = (self.waiting.iter().copied())
            .filter(|number| self.messages[*number].visible_at <= now)
            .take(OUT_OF_ORDER.max(most))
            .collect();
        self.rng.shuffle(&mut visible);
        visible.truncate(most);
        let mut batch = Vec::new();
        for number in visible {
            let message = &mut self.messages[number];
            if message.receives == self.max_receives {
                self.waiting.remove(&number);
                self.dead.push(number);
                continue;
            }
            message.receives += 1;
            if self.rng.usize(..DELIVERED_TWICE_IN) != 0 {
                message.visible_at = now + self.visibility;
            }
            self.deliveries += 1;
            batch.push(Received {
                number,
                payment: message.payment,
                receives: message.receives,
            });
        }
        batch
    }

    pub(crate) fn delete(&mut self, number: usize) {
        self.messages[number].is_deleted = true;
        self.waiting.remove(&number);
    }

    pub(crate) fn is_deleted(&self, number: usize) -> bool {
        self.messages[number].is_deleted
    }

    /// Puts what is in the dead-letter queue back, as a person would, and says how many those are.
    pub(crate) fn redrive(&mut self) -> usize {
        let dead = std::mem::take(&mut self.dead);
        for number in &dead {
            self.messages[*number].receives = 0;
            self.messages[*number].visible_at = Instant::now();
            self.waiting.insert(*number);
        }
        dead.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn dead(&self) -> usize {
        self.dead.len()
    }

    pub(crate) fn deliveries(&self) -> usize {
        self.deliveries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(visibility: Duration) -> Queue {
        // With this seed, the messages below are hidden when they are received.
        let mut queue = Queue::new(Rng::with_seed(7), visibility, 2);
        queue.send(vec![Payment(0)]);
        queue
    }

    #[test]
    fn a_message_is_hidden_until_its_time_and_then_comes_back_with_its_receives_counted() {
        let mut hidden = queue(Duration::from_secs(3_600));
        assert_eq!(hidden.receive(10).len(), 1);
        assert!(hidden.receive(10).is_empty());

        let mut back = queue(Duration::ZERO);
        assert_eq!(back.receive(10)[0].receives, 1);
        assert_eq!(back.receive(10)[0].receives, 2);
        assert_eq!(back.deliveries(), 2);
    }

    #[test]
    fn a_message_that_was_received_too_often_goes_to_the_dead_letter_queue_until_it_is_redriven() {
        let mut queue = queue(Duration::ZERO);
        queue.receive(10);
        queue.receive(10);
        assert!(queue.receive(10).is_empty());
        assert_eq!((queue.waiting(), queue.dead()), (0, 1));
        assert_eq!(queue.redrive(), 1);
        assert_eq!(queue.receive(10)[0].receives, 1);
    }

    #[test]
    fn a_deleted_message_is_gone() {
        let mut queue = queue(Duration::ZERO);
        let received = queue.receive(10);
        queue.delete(received[0].number);
        assert!(queue.receive(10).is_empty());
        assert_eq!(queue.waiting(), 0);
    }
}
