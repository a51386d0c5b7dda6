//! What the producer sends, and what the ledger has to show for it.
//!
//! The payments of one account have the amounts 1, 10, 100, …: each decimal digit of the balance then
//! says how often one payment was added. A balance of 1,021 means that the first payment was added
//! once, the second twice and the third not at all.

use fastrand::Rng;
use serde_json::json;

/// An amount is a 64-bit number of cents; 10^15 is the last one of an account.
const PAYMENTS_OF_AN_ACCOUNT: usize = 16;

/// Of so many messages one is the second of its payment.
const DUPLICATE_IN: usize = 10;

/// One payment. Its number names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Payment(pub(crate) usize);

impl Payment {
    pub(crate) fn id(self) -> String {
        format!("p-{}", self.0)
    }

    pub(crate) fn account(self) -> String {
        format!("account-{}", self.0 / PAYMENTS_OF_AN_ACCOUNT)
    }

    pub(crate) fn amount(self) -> u128 {
        10_u128.pow(self.digit())
    }

    /// How often this payment is in its account's balance.
    pub(crate) fn times_in(self, balance: u128) -> u128 {
        balance / self.amount() % 10
    }

    /// The message, the same each time that it is sent.
    pub(crate) fn body(self) -> String {
        let amount = self.amount() as u64;
        json!({ "payment_id": self.id(), "account": self.account(), "amount": amount }).to_string()
    }

    fn digit(self) -> u32 {
        (self.0 % PAYMENTS_OF_AN_ACCOUNT) as u32
    }
}

/// Sends payments, some of them twice.
pub(crate) struct Producer {
    rng: Rng,
    payments: usize,
    messages: usize,
}

impl Producer {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            payments: 0,
            messages: 0,
        }
    }

    /// The next so many messages. A second message follows at once, or comes much later.
    pub(crate) fn messages(&mut self, count: usize) -> Vec<Payment> {
        (0..count).map(|_| self.message()).collect()
    }

    fn message(&mut self) -> Payment {
        self.messages += 1;
        if self.payments > 0 && self.rng.usize(..DUPLICATE_IN) == 0 {
            return Payment(if self.rng.bool() {
                self.payments - 1
            } else {
                self.rng.usize(..self.payments)
            });
        }
        self.payments += 1;
        Payment(self.payments - 1)
    }

    pub(crate) fn sent(&self) -> usize {
        self.messages
    }

    pub(crate) fn duplicates(&self) -> usize {
        self.messages - self.payments
    }

    pub(crate) fn payments(&self) -> impl Iterator<Item = Payment> + use<> {
        (0..self.payments).map(Payment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_says_how_often_each_payment_was_added() {
        let balance = 1_021;
        let times: Vec<_> = (16..20)
            .map(|number| Payment(number).times_in(balance))
            .collect();
        assert_eq!(times, [1, 2, 0, 1]);
        assert_eq!(Payment(31).times_in(Payment(31).amount()), 1);
    }

    #[test]
    fn some_messages_repeat_a_payment_that_was_sent_before() {
        let mut producer = Producer::new(Rng::with_seed(1));
        let sent = producer.messages(1_000);
        let known = producer.payments().count();
        assert_eq!(producer.sent(), 1_000);
        assert_eq!(producer.duplicates(), 1_000 - known);
        assert!((50..200).contains(&producer.duplicates()));
        assert!(sent.iter().all(|payment| payment.0 < known));
    }
}
