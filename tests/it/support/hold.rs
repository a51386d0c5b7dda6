//! Where a handler stands still until the test lets it go on.

use std::sync::Arc;

use lambda_idempotency::{Handler, HandlerError, Message, Transaction};
use tokio::sync::Notify;

use super::{Payment, lab::Tables, pay};

#[derive(Clone, Default)]
pub struct Hold(Arc<Points>);

#[derive(Default)]
struct Points {
    reached: Notify,
    let_go: Notify,
}

impl Hold {
    /// The handler's side: says that it is here, and waits.
    pub async fn here(&self) {
        self.0.reached.notify_one();
        self.0.let_go.notified().await;
    }

    /// The test's side: waits until the handler is there.
    pub async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// The test's side: lets one handler go on.
    pub fn let_go(&self) {
        self.0.let_go.notify_one();
    }
}

/// A bank that stands still before it returns its writes.
pub struct HeldBank {
    pub tables: Tables,
    pub hold: Hold,
}

impl Handler<Payment> for HeldBank {
    type Output = Transaction;

    async fn handle(&self, message: Message<Payment>) -> Result<Transaction, HandlerError> {
        self.hold.here().await;
        Ok(pay(&self.tables, &message.body))
    }
}
