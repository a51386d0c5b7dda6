//! Counts the HTTP requests that reach DynamoDB, the retries of the AWS SDK too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};

/// Requests by operation: `PutItem`, `TransactWriteItems`, …
pub(crate) type Operations = BTreeMap<String, u64>;

/// Counts the requests of every client that it is set on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    sent: Arc<Mutex<Operations>>,
}

impl Requests {
    /// The requests since the last time.
    pub(crate) fn take(&self) -> Operations {
        std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "Requests"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        // `DynamoDB_20120810.PutItem`
        let target = context.request().headers().get("x-amz-target");
        let operation = target
            .and_then(|target| target.rsplit('.').next())
            .unwrap_or("unknown");
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent.entry(operation.to_owned()).or_default() += 1;
        Ok(())
    }
}
